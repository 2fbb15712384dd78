"""Columns of more bytes than plain types can count, by a bound of a few bytes in place of 2 GiB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

from tidegate.client import Client
from tidegate.training import Loader, Shuffle
from tidegate.training.order import large_columns
from tidegate.training.order.large_columns import as_one, plain, taken_of

COLUMNS = [
    pa.array(["a", None, "ccc"]),
    pa.array([b"a", None, b"ccc"]),
    pa.array([["a", None], None, ["b"]]),
    pa.array([[1, 2], [], None], pa.list_(pa.int32())),
    pa.array([[["a"], ["b"]], None, [[], ["c"]]], pa.list_(pa.list_(pa.string()), 2)),
    pa.array([{"x": "a", "y": [1]}, None, {"x": None, "y": []}]),
    pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string())),
]


@pytest.fixture(params=[0, 2**31 - 1])
def bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(large_columns, "MOST_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_rows_are_joined_taken_and_made_plain_whatever_their_bytes(
    column: pa.Array, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = column.to_pylist()
    joined = as_one([column, column.slice(1)])
    assert joined.to_pylist() == rows + rows[1:]
    assert (joined.type == column.type) == (bound > 0)
    mixed = as_one([joined, column])
    assert mixed.to_pylist() == rows + rows[1:] + rows
    positions = np.array([2, 0, 0, 4])
    taken = taken_of(joined, positions)
    assert taken.to_pylist() == [(rows + rows[1:])[at] for at in positions]
    assert plain(taken, column.type).type == taken.type  # too many bytes, if there is a bound
    monkeypatch.undo()
    delivered = plain(taken.slice(1), column.type)
    assert (delivered.type, delivered.to_pylist()) == (column.type, taken.slice(1).to_pylist())


def test_rows_that_repeat_are_counted_as_often_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array(["a", "b"])
    monkeypatch.setattr(large_columns, "MOST_BYTES", 2 * column.nbytes)
    assert taken_of(column, np.array([1, 0, 1])).type == pa.string()
    taken = taken_of(column, np.array([1, 0, 1, 1]))
    assert (taken.type, taken.to_pylist()) == (pa.large_string(), ["b", "a", "b", "b"])


@pytest.mark.parametrize("options", [{}, {"shuffle": Shuffle(1)}, {"shards": 2}, {"weight": "w"}, {"pad": True}])
@pytest.mark.parametrize("arrays", ["numpy", "arrow"])
def test_batches_have_plain_types_after_windows_of_very_many_bytes(
    local_client: Client, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], arrays: Any
) -> None:
    names = {"n": sub.i64, "w": sub.i64, "text": sub.string, "tokens": sub.list_(sub.i32())}
    plan = sub.read_named_table("samples", names).to_plan()
    columns = {"n": range(90), "w": [1] * 90, "text": [f"{n:4}" for n in range(90)], "tokens": [[n] for n in range(90)]}
    table = pa.table(
        columns,
        schema=pa.schema({"n": pa.int64(), "w": pa.int64(), "text": pa.string(), "tokens": pa.list_(pa.int32())}),
    )
    monkeypatch.setattr(large_columns, "MOST_BYTES", 600)  # more than a batch has, and less than the window
    loader = Loader(local_client, plan, {"samples": table}, batch_size=20, as_=arrays, **options)
    seen = []
    for batch in loader:
        assert batch["text"].type == pa.string()
        assert batch["text"].to_pylist() == [f"{n:4}" for n in batch["n"].tolist()]
        tokens = batch["tokens"].to_pylist() if arrays == "arrow" else [row.tolist() for row in batch["tokens"]]
        assert tokens == [[n] for n in batch["n"].tolist()]
        seen += batch["n"].tolist()
    assert sorted(set(seen)) == list(range(90))
