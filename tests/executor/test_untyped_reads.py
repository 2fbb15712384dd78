"""Class of bug: a read without types has other types than its source, or is refused without a reason."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.executor.service import source_schemas
from tidegate.operators.sources.split_pieces import expand

ROWS: Final = pa.table(
    {
        "k": pa.array([1, None], pa.int32()),
        "s": pa.array(["a", "b"], pa.large_string()),
        "d": pa.array([[1], []], pa.list_(pa.int64())),
        "t": pa.array([0, 1], pa.timestamp("ms")),
        "u": pa.array([1, 2], pa.duration("s")),
    }
)


def plan(kind: str, body: Any, *names: str) -> str:
    """A plan of a read whose columns have names alone."""
    read = {"baseSchema": {"names": names}, kind: body}
    return json.dumps({"relations": [{"root": {"input": {"read": read}, "names": names}}]})


def named(*names: str) -> str:
    return plan("namedTable", {"names": ["rows"]}, *names)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("name", ["rows", "ROWS"])
def test_the_schema_of_a_bound_table_tells_the_types(name: str, file: Path) -> None:
    with tidegate.local() as client:
        for table in (ROWS, file, tidegate.upload(file)):
            rows = client.query(named("t", "k", "s"), tables={name: table})
            assert rows.to_pylist() == ROWS.select(["t", "k", "s"]).to_pylist()
            assert rows.schema.field("k").type == pa.int32()
            assert rows.schema.field("t").type == pa.timestamp("ms")


def test_the_schema_of_a_file_that_the_plan_names_tells_the_types(file: Path) -> None:
    of_file = plan("localFiles", {"items": [{"uriFile": file.as_uri(), "parquet": {}}]}, "k")
    with tidegate.local() as client:
        assert client.query(of_file).column("k").to_pylist() == [1, None]
        assert client.validate(of_file) == ()


def test_a_durable_task_and_its_checkpoints_have_the_types_again(tmp_path: Path, file: Path) -> None:
    with tidegate.local(data=tmp_path / "data", checkpoint_root=tmp_path) as client:
        task = client.create_task(named("k"), tables={"rows": file})
        taken = task.run_epoch({}, checkpoint=True).checkpoint
        assert client.create_task(named("k"), tables={"rows": file}, restore=taken).cursor.epoch == 2
    with tidegate.local(data=tmp_path / "data", checkpoint_root=tmp_path) as client:
        assert client.task(task.id).read_epoch().num_rows == 2


def test_a_file_that_a_plan_names_often_is_looked_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []

    def counted(split: Any, *rest: Any, **more: Any) -> Any:
        listed.append(split)
        return expand(split, *rest, **more)

    monkeypatch.setattr(source_schemas, "expand", counted)
    items = {"items": [{"uriFolder": file.parent.as_uri(), "parquet": {}}]}
    read = {"read": {"baseSchema": {"names": ["k"]}, "localFiles": items}}
    union = {"set": {"op": "SET_OP_UNION_ALL", "inputs": [read] * 20}}
    with tidegate.local() as client:
        assert not client.validate(json.dumps({"relations": [{"root": {"input": union, "names": ["k"]}}]}))
    assert len(listed) == 1


def test_many_names_of_a_wide_table_take_no_long_time_and_no_long_sentences() -> None:
    """Before, each name was compared with each column, and each problem listed all columns: 20 s and 10 MB."""
    width = 4_000
    wide = pa.schema([(f"column {at}", pa.int64()) for at in range(width)]).empty_table()
    there, strange = ([f"{word} {at}" for at in range(width)] for word in ("column", "field"))
    began = time.process_time()
    with tidegate.local() as client:
        assert client.query(named(*there), tables={"rows": wide}).num_columns == width
        with pytest.raises(tidegate.PlanError, match=r"'column 0', .* more") as refused:
            client.create_task(named(*strange), tables={"rows": wide})
    assert time.process_time() - began < 5
    assert len(str(refused.value)) < 200_000


@pytest.mark.parametrize(
    ("names", "tables", "sentence"),
    [
        (["k"], {}, "names and no types: declare the types, or bind the table"),
        (["k", "x"], {"rows": ROWS}, "the source has no column 'x'; there are: 'k', 's', 'd', 't', 'u'"),
        (["u"], {"rows": ROWS}, "column 'u' is duration\\[s\\], which is no Substrait type"),
        (["k", "k"], {"rows": ROWS}, "two columns are called 'k'"),
    ],
)
def test_types_that_nothing_tells_are_asked_for(names: list[str], tables: Any, sentence: str) -> None:
    with tidegate.local() as client, pytest.raises(tidegate.PlanError, match=sentence) as refused:
        client.create_task(named(*names), tables=tables)
    assert refused.value.reason == ("DUPLICATE_NAME" if names == ["k", "k"] else "UNKNOWN_TYPES")
