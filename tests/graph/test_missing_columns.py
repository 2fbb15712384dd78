"""A file of a graph that lacks a column of its node: an error, or null where that is said."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import tidegate
from tidegate.proto.values import MissingColumns

FULL = pa.table({"k": [1, 2], "v": [3, 4]})
LACKING = pa.table({"k": [5]})
FORMATS = ["parquet", "csv", "json", "arrow"]


def write(rows: pa.Table, path: Path) -> str:
    match path.suffix:
        case ".parquet":
            parquet.write_table(rows, path)
        case ".csv":
            csv.write_csv(rows, path)
        case ".json":
            path.write_text("".join(f"{row}\n".replace("'", '"') for row in rows.to_pylist()))
        case _:
            with pa.ipc.new_file(path, rows.schema) as writer:
                writer.write_table(rows)
    return str(path)


def graph_of(folder: Path, kind: str, lacking: object, statement: str | None) -> tidegate.TaskGraph:
    graph = tidegate.TaskGraph()
    write(LACKING, folder / f"lacking.{kind}")
    files = [write(FULL, folder / f"full.{kind}"), lacking or str(folder / f"lacking.{kind}")]
    rows = getattr(graph, f"read_{kind}")(files, schema=FULL.schema)
    graph.collect(rows if statement is None else graph.sql("values", statement, {"rows": rows}))
    return graph


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("statement", [None, "SELECT v FROM rows"], ids=["as it is", "a statement"])
def test_it_is_an_error_that_names_the_column_the_file_and_the_node(
    tmp_path: Path, kind: str, statement: str | None
) -> None:
    graph = graph_of(tmp_path, kind, None, statement)
    with (
        tidegate.local() as client,
        pytest.raises(tidegate.TaskFailed, match=rf"lacking\.{kind}.*column 'v' is missing"),
    ):
        client.run_graph(graph)


@pytest.mark.parametrize("statement", [None, "SELECT v FROM rows"], ids=["as it is", "a statement"])
def test_a_csv_file_of_another_delimiter_lists_the_column_there_is(tmp_path: Path, statement: str | None) -> None:
    csv.write_csv(FULL, tmp_path / "other.csv", csv.WriteOptions(delimiter=";", quoting_style="none"))
    graph = graph_of(tmp_path, "csv", str(tmp_path / "other.csv"), statement)
    with (
        tidegate.local() as client,
        pytest.raises(tidegate.TaskFailed, match=r"other\.csv.*column '.' is missing; there are: .*k.?;.?v") as refused,
    ):
        client.run_graph(graph)
    assert refused.value.reason == "MISSING_COLUMN"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("said", ["null", MissingColumns.NULL, "of the task"], ids=str)
def test_it_is_null_where_the_file_or_the_task_says_so(tmp_path: Path, kind: str, said: str | MissingColumns) -> None:
    path, options = str(tmp_path / f"lacking.{kind}"), {}
    if said == "of the task":
        lacking, options = None, {"missing_columns": "null"}
    else:
        lacking = tidegate.FileSplit(path, missing_columns=said)
    with tidegate.local() as client:
        result = client.run_graph(graph_of(tmp_path, kind, lacking, None), **options).table()
    assert result["v"].to_pylist() == [3, 4, None]


def test_another_word_is_refused_when_the_graph_is_built(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="missing_columns must be one of error, null, not 'none'"):
        graph_of(tmp_path, "parquet", tidegate.FileSplit("x.parquet", missing_columns="none"), None)


def of_items(items: Iterable[object], **how: int) -> tidegate.TaskGraph:
    graph = tidegate.TaskGraph()
    graph.collect(graph.read_iterable(items, FULL.schema, name="items", **how))
    return graph


@pytest.mark.parametrize("how", [{}, {"epoch_rows": 2}], ids=str)
def test_a_column_that_no_row_of_an_iterable_has_is_an_error(how: dict[str, int]) -> None:
    items = [{"k": 1, "w": 2}, {"k": 2}]
    with (
        tidegate.local() as client,
        pytest.raises(
            tidegate.TaskFailed, match=r"node 'items', .*no row of its iterable has column 'v'; there are: 'k', 'w'"
        ) as refused,
    ):
        client.run_graph(of_items(iter(items), **how))
    assert refused.value.reason == "MISSING_COLUMN"


def test_it_is_null_where_some_row_has_it_or_the_task_says_so() -> None:
    lacking: list[object] = [{"k": 1}, {"k": 2}]
    with tidegate.local() as client:
        for more in ({"v": 3}, (5, 3), pa.record_batch({"k": [5], "v": [3]})):
            assert client.run_graph(of_items([*lacking, more])).table()["v"].to_pylist() == [None, None, 3]
        null = client.run_graph(of_items(lacking), missing_columns="null").table()
        assert null.to_pydict() == {"k": [1, 2], "v": [None, None]}
        assert client.run_graph(of_items([])).rows == 0


def test_later_epochs_of_an_iterator_may_lack_a_column_that_an_earlier_one_had() -> None:
    items = iter([{"k": 1, "v": 3}, {"k": 2}])
    with tidegate.local() as client, client.create_task(of_items(items, epoch_rows=1)) as task:
        assert [task.run_epoch({}).table()["v"].to_pylist() for _ in range(2)] == [[3], [None]]
