"""A column that the plan reads and a split lacks is an error, unless the task, the split or the table says null."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.transport import inline_files

from ..executor.plans import joined, plan, read
from ..on_channels import on_channels

ROWS = pa.table({"k": pa.array([1, 2], pa.int64())})
KEPT = [{"k": 1, "v": None}, {"k": 2, "v": None}]
MODES = pytest.mark.parametrize("how", [{}, on_channels(2), {"mode": "continuous"}], ids=str)
FORMS = pytest.mark.parametrize("form", ["inline", "file", "large"])
TEXT = "column 'v' is missing; there are: 'k'"


@pytest.fixture
def client(open_client: Callable[..., Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(inline_files, "INLINE_BYTES", 10_000)
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return open_client(PlanEngine([str(tmp_path)], tmp_path / "service"))


def split_in_form(form: str, folder: Path) -> object:
    match form:
        case "inline":
            return ROWS
        case "file":
            return str(folder / "rows.parquet")
        case _:  # over gRPC it is sent ahead as a file
            return pa.concat_tables([ROWS] * 1_000).combine_chunks()


def answer(task: tidegate.Task, split: object) -> list[dict[str, object]]:
    rows = task.run_epoch({"l": split}).table().select(["k", "v"])
    return rows.slice(0, 2).to_pylist()


@MODES
@FORMS
def test_it_is_an_error_that_lists_the_columns_there_are(
    client: Client, tmp_path: Path, how: dict[str, object], form: str
) -> None:
    with (
        client.create_task(plan(read("l", "k", "v"), "k", "v"), **how) as task,
        pytest.raises(tidegate.TidegateError, match=TEXT) as refused,
    ):
        answer(task, split_in_form(form, tmp_path))
    assert refused.value.reason == "MISSING_COLUMN"


@MODES
@FORMS
def test_it_is_null_where_the_task_says_so(client: Client, tmp_path: Path, how: dict[str, object], form: str) -> None:
    with client.create_task(plan(read("l", "k", "v"), "k", "v"), missing_columns="null", **how) as task:
        assert task.options.missing_columns is tidegate.MissingColumns.NULL
        assert answer(task, split_in_form(form, tmp_path))[:1] == KEPT[:1]
        own = tidegate.FileSplit(str(tmp_path / "rows.parquet"), missing_columns="error")  # goes before the task's
        with pytest.raises(tidegate.TidegateError, match=TEXT):
            answer(task, own)


@MODES
@FORMS
def test_it_is_null_where_the_split_says_so(client: Client, tmp_path: Path, how: dict[str, object], form: str) -> None:
    with client.create_task(plan(read("l", "k", "v"), "k", "v"), **how) as task:
        assert answer(task, tidegate.MissingAsNull(split_in_form(form, tmp_path)))[:1] == KEPT[:1]
        assert task.add_split("l", split_in_form(form, tmp_path), sequence=2, missing_columns="null").duplicate is False
        if form != "large":
            assert task.add_split("l", split_in_form(form, tmp_path), sequence=2, missing_columns="null").duplicate
            with pytest.raises(tidegate.Refused, match="other content"):
                task.add_split("l", split_in_form(form, tmp_path), sequence=2, missing_columns="error")


@pytest.mark.parametrize("how", [{}, {"mode": "continuous"}], ids=str)
@pytest.mark.parametrize("form", ["inline", "file"])
def test_a_table_says_so_too(client: Client, tmp_path: Path, how: dict[str, object], form: str) -> None:
    query = plan(joined(read("f", "k"), read("l", "k", "v"), 1), "x", "k", "v")
    table = split_in_form(form, tmp_path)
    with (
        pytest.raises(tidegate.TidegateError, match=TEXT),
        client.create_task(query, tables={"l": table}, **how) as task,
    ):
        task.run_epoch({"f": ROWS}).table()
    for tables, more in (({"l": tidegate.MissingAsNull(table)}, {}), ({"l": table}, {"missing_columns": "null"})):
        with client.create_task(query, tables=tables, **how, **more) as task:
            assert task.run_epoch({"f": ROWS}).table().select(["k", "v"]).sort_by("k").to_pylist() == KEPT


TEXTS = {
    "rows.csv": ("k;v\n1;2\n", "column 'k' is missing; there are: 'k;v'"),
    "tabs.csv": ("k\tv\n1\t2\n", "column 'k' is missing; there are: 'k\\\\tv'"),
    "header.csv": ("1,2\n3,4\n", "column 'k' is missing; there are: '1', '2'"),
    "rows.json": ('{"k": 1, "w": 2}\n', "column 'v' is missing; there are: 'k', 'w'"),
}


@MODES
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("form", ["split", "uploaded split", "table", "uploaded table"])
def test_a_text_file_of_another_delimiter_header_or_key_lists_the_columns_there_are(
    client: Client, tmp_path: Path, how: dict[str, object], name: str, form: str
) -> None:
    content, expected = TEXTS[name]
    (tmp_path / name).write_text(content)
    path = str(tmp_path / name)
    split = tidegate.upload(path) if "uploaded" in form else path
    tables = {"l": split} if "table" in form else {}
    with (
        pytest.raises(tidegate.TidegateError, match=expected) as refused,
        client.create_task(plan(read("l", "k", "v"), "k", "v"), tables=tables, **how) as task,
    ):
        task.run_epoch({} if tables else {"l": split}).table()
    assert refused.value.reason == "MISSING_COLUMN"


def test_a_file_split_may_say_so_by_its_value(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    with client.create_task(plan(read("l", "k", "v"), "k", "v")) as task:
        assert answer(task, tidegate.FileSplit(path, missing_columns=tidegate.MissingColumns.NULL)) == KEPT
        assert answer(task, tidegate.FileSplit(path, missing_columns="null")) == KEPT
        with pytest.raises(tidegate.InvalidRequest, match="missing_columns must be one of error, null, not 'none'"):
            task.add_split("l", path, missing_columns="none")


def test_a_column_that_the_plan_does_not_read_is_not_missed(client: Client, tmp_path: Path) -> None:
    with client.create_task(plan(read("l", "k"), "k")) as task:
        assert task.run_epoch({"l": str(tmp_path / "rows.parquet")}).table().to_pylist() == ROWS.to_pylist()


def test_a_column_that_folders_tell_is_there(client: Client, tmp_path: Path) -> None:
    (tmp_path / "v=7").mkdir()
    pq.write_table(ROWS, tmp_path / "v=7" / "rows.parquet")
    with client.create_task(plan(read("l", "k", "v"), "k", "v")) as task:
        assert answer(task, str(tmp_path / "v=7")) == [{"k": 1, "v": 7}, {"k": 2, "v": 7}]


def test_a_query_is_given_all_of_its_sources_or_an_empty_list_for_one(client: Client) -> None:
    query = plan(joined(read("f", "k"), read("l", "k"), 1), "x", "k")
    with pytest.raises(tidegate.InvalidRequest, match=r"source 'l' has no splits.*an empty list") as refused:
        client.query(query, {"f": ROWS})
    assert refused.value.reason == "SOURCE_UNFED"
    assert client.query(query, {"f": ROWS, "L": []}).num_rows == 0
    assert client.query(query, {"f": ROWS}, tables={"l": ROWS}).num_rows == 2


def test_a_field_of_a_struct_is_missed_like_a_column(tmp_path: Path) -> None:
    """In lists and maps too, as rows and as files of any kind that has types."""
    pair, nested = pa.struct([("a", pa.int64()), ("b", pa.int64())]), pa.struct([("a", pa.int64())])
    for wrap in (lambda of: of, pa.list_, lambda of: pa.map_(pa.string(), of), lambda of: pa.struct([("s", of)])):
        wanted, present = wrap(pair), wrap(nested)
        path = "s.b" if wanted.num_fields == 1 and pa.types.is_struct(wanted) else "b"
        lacking = pa.table({"v": pa.array([None], present)})
        pq.write_table(lacking, tmp_path / "lacking.parquet")
        orc.write_table(lacking, tmp_path / "lacking.orc")
        with pa.ipc.new_file(tmp_path / "lacking.arrow", lacking.schema) as writer:
            writer.write_table(lacking)
        graph = tidegate.TaskGraph()
        graph.collect(graph.source("l", pa.schema([("v", wanted)])))
        files = [str(tmp_path / f"lacking.{kind}") for kind in ("parquet", "orc", "arrow")]
        with tidegate.local() as here:
            for split in (lacking, *files):
                with (
                    here.create_task(graph) as task,
                    pytest.raises(tidegate.TidegateError, match=f"field '{path}' of column 'v' is missing; .*: 'a'"),
                ):
                    task.run_epoch({"l": split}).table()
                with here.create_task(graph, missing_columns="null") as task:
                    assert task.run_epoch({"l": split}).table().num_rows == 1


def test_fields_in_another_order_and_more_of_them_are_not_missed() -> None:
    graph = tidegate.TaskGraph()
    graph.collect(graph.source("l", pa.schema([("v", pa.struct([("a", pa.int64()), ("b", pa.int64())]))])))
    rows = pa.table({"v": [{"c": 3, "b": 2, "a": 1}]})
    with tidegate.local() as here, here.create_task(graph) as task:
        assert task.run_epoch({"l": rows}).table().to_pylist() == [{"v": {"a": 1, "b": 2}}]
