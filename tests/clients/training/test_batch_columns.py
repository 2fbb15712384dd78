"""Columns of batches are NumPy arrays where the layout allows, lists are 2-D or ragged, the rest is Arrow."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.client import Client
from tidegate.training import Batch, Loader, Ragged, Shuffle
from tidegate.training.batch_columns import forms
from tidegate.training.building.row_gathering import WIDE_BYTES, RowGathering, joined, part

TABLE = pa.table(
    {
        "small": pa.array([1, 2, 3], pa.int8()),
        "score": pa.array([0.5, None, 2.5], pa.float32()),
        "ok": pa.array([True, False, True]),
        "day": pa.array([date(2024, 1, 1)] * 3),
        "at": pa.array([0, 1, 2], pa.timestamp("us")),
        "text": pa.array(["a", None, "ccc"]),
        "image": pa.array([b"\x00", b"", b"\xff"]),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32())),
        "tokens": pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int64())),
        "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float64(), 2)),
    }
)


def batch_of(
    positions: Any = slice(0, 3), shapes: Any = None, as_: Any = "numpy", table: pa.Table = TABLE
) -> dict[str, Any]:
    """The rows at some positions, as a loader makes a batch of them."""
    gathering = RowGathering()
    return {
        form.name: form.delivered(
            gathering.taken(form.parts(table[form.name].chunks, table[form.name].type), positions)
        )
        for form in forms(table.schema, None, shapes or {}, as_)
    }


def test_numbers_times_and_flags_are_arrays_of_their_own_types() -> None:
    types = {name: values.dtype for name, values in batch_of().items() if isinstance(values, np.ndarray)}
    assert types == {
        "small": np.dtype("int8"),
        "score": np.dtype("float32"),
        "ok": np.dtype("bool"),
        "day": np.dtype("datetime64[D]"),
        "at": np.dtype("datetime64[us]"),
        "fixed": np.dtype("float64"),
    }


def test_a_null_among_floats_is_nan() -> None:
    np.testing.assert_array_equal(batch_of()["score"], np.array([0.5, np.nan, 2.5], np.float32))


def test_lists_of_a_fixed_size_are_two_dimensional() -> None:
    assert batch_of([2, 0])["fixed"].tolist() == [[5, 6], [1, 2]]


def test_lists_of_a_known_shape_are_arrays_of_this_shape() -> None:
    pairs = batch_of(np.array([2, 0]), {"pair": (2,), "fixed": (1, 2)})
    assert pairs["pair"].tolist() == [[5, 6], [1, 2]]
    assert pairs["fixed"].shape == (2, 1, 2)


def test_other_lists_of_numbers_are_ragged() -> None:
    tokens = batch_of(np.array([2, 1, 0]))["tokens"]
    assert isinstance(tokens, Ragged)
    assert (tokens.offsets.tolist(), tokens.values.tolist()) == ([0, 1, 1, 4], [4, 1, 2, 3])
    assert [row.tolist() for row in tokens] == [[4], [], [1, 2, 3]]


def test_texts_and_bytes_stay_arrow() -> None:
    batch = batch_of()
    assert batch["text"].to_pylist() == ["a", None, "ccc"]
    assert batch["image"].to_pylist() == [b"\x00", b"", b"\xff"]


def test_every_column_may_stay_arrow() -> None:
    batch = batch_of(as_="arrow")
    assert {name: values.to_pylist() for name, values in batch.items()} == TABLE.to_pydict()


def test_numbers_without_a_shuffle_are_not_copied() -> None:
    column = TABLE["small"].chunk(0)
    values = batch_of()["small"]
    assert np.shares_memory(values, column.to_numpy())
    assert not values.flags.writeable
    assert batch_of(np.array([0, 1]))["small"].flags.writeable


@pytest.mark.parametrize("positions", [slice(0, 3), np.array([2, 0, 1])])
def test_other_libraries_take_arrays_by_dlpack_without_a_copy(positions: Any) -> None:
    """A shuffled array may be written to; memory of the engine stays read-only."""
    batch = batch_of(positions, {"pair": (2,)})
    for values in (batch["small"], batch["score"], batch["pair"], batch["fixed"], batch["tokens"].values):
        taken = np.from_dlpack(values)
        assert np.shares_memory(taken, values)
        assert taken.flags.writeable == values.flags.writeable
        np.testing.assert_array_equal(taken, values)


@pytest.mark.parametrize(
    ("column", "shapes", "named"),
    [
        (pa.array([1, None]), {}, "column 'c' has 1 nulls"),
        (pa.array([[1], [2, 3]]), {"c": (1,)}, "a list of 2 values"),
        (pa.array([[1.0], None]), {}, "column 'c' has 1 nulls"),
        (pa.array([[1], [None]]), {}, "column 'c' has 1 nulls"),
    ],
)
def test_values_that_an_array_cannot_have_are_named(column: pa.Array, shapes: Any, named: str) -> None:
    with pytest.raises(tidegate.ExecutionError, match=named):
        batch_of(slice(0, 2), shapes, table=pa.table({"c": column}))


def test_a_shape_of_a_column_without_lists_is_refused() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="is no list"):
        batch_of(shapes={"small": (1,)})


@pytest.mark.parametrize("rows", [[["a"]], [[[1]]], [[b"a"]], [[{"a": 1}]]])
def test_a_shape_of_lists_without_numbers_is_refused(rows: list[Any]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="its lists have no numbers") as refused:
        batch_of(slice(0, 1), {"c": (1,)}, table=pa.table({"c": pa.array(rows)}))
    assert refused.value.reason == "WRONG_SHAPE"


@pytest.mark.parametrize("shape", [2, "2", (-1,), (2.0,), (True,)])
def test_a_shape_that_is_no_list_of_whole_numbers_is_refused(shape: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="must be a list of whole numbers from 0 on") as refused:
        forms(pa.schema({"c": pa.list_(pa.int64())}), None, {"c": shape}, "numpy")
    assert refused.value.reason == "WRONG_SHAPE"


VALUES = st.lists(st.lists(st.integers(-9, 9), max_size=3), min_size=1, max_size=12)


@given(VALUES, st.data())
def test_rows_are_taken_cut_and_joined_as_a_list_of_rows_would_be(rows: list[list[int]], data: st.DataObject) -> None:
    [form] = forms(pa.schema({"c": pa.list_(pa.int64())}), None, {}, "numpy")
    cut = data.draw(st.integers(0, len(rows)))
    chunks = [pa.array(chunk, pa.list_(pa.int64())) for chunk in (rows[:cut], rows[cut:])]
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    values = RowGathering().taken(form.parts(chunks, chunks[0].type), np.array(positions))
    end = data.draw(st.integers(0, len(positions)))
    halves = joined([part(values, end, len(positions)), part(values, 0, end)])
    shown = [row.tolist() for row in form.delivered(halves)]
    assert shown == [rows[at] for at in positions[end:] + positions[:end]]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 2 * WIDE_BYTES), st.data())
def test_rows_of_any_width_come_from_parts_as_from_one_array(
    lengths: list[int], width: int, data: st.DataObject
) -> None:
    total = sum(lengths)
    rows = np.arange(total * width, dtype=np.uint16).astype(np.uint8).reshape(total, width)
    parts = np.split(rows, np.cumsum(lengths)[:-1])
    gathering = RowGathering()
    for _ in range(2):  # the memory that the first call has left has no influence on the second
        chosen = data.draw(st.lists(st.integers(0, total - 1), max_size=30) if total else st.just([]))
        positions = np.array(chosen, np.int64)
        taken = gathering.taken(parts, positions)
        assert taken.tolist() == rows[positions].tolist()
        assert taken.flags.owndata


def test_a_batch_is_a_dictionary_that_can_be_sent_to_another_process() -> None:
    import pickle

    batch = pickle.loads(pickle.dumps(Batch({"n": [1]}, epoch=2, number=3, rows=1, padding=0)))
    assert (dict(batch), batch.epoch, batch.number, batch.rows) == ({"n": [1]}, 2, 3, 1)


def test_lists_and_texts_come_through_a_plan(local_client: Client) -> None:
    schema = {"n": sub.i64, "tokens": sub.list_(sub.i32()), "text": sub.string}
    plan = sub.read_named_table("samples", schema).to_plan()
    rows = [{"n": n, "tokens": [n, n + 1], "text": f"row {n}"} for n in range(200)]
    batches = Loader(
        local_client,
        plan,
        {"samples": pa.Table.from_pylist(rows)},
        batch_size=32,
        shuffle=Shuffle(1),
        shapes={"tokens": (2,)},
        prefetch=0,
    )
    seen = []
    for batch in batches:
        assert batch["tokens"].shape == (batch.rows, 2)
        seen += zip(batch["n"].tolist(), batch["tokens"].tolist(), batch["text"].to_pylist(), strict=True)
    assert sorted(seen) == [(n, [n, n + 1], f"row {n}") for n in range(200)]


def test_jax_takes_the_arrays() -> None:
    jax = pytest.importorskip("jax")
    batch = batch_of(as_="jax")
    assert isinstance(batch["small"], jax.Array)
    assert batch["fixed"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_shape_may_have_numbers_of_numpy() -> None:
    schema = pa.schema([("x", pa.list_(pa.int32()))])
    [form] = forms(schema, None, {"x": np.array([2, 2])}, "numpy")
    [rows] = form.parts([pa.array([[1, 2, 3, 4]], pa.list_(pa.int32()))], schema.types[0])
    assert rows.tolist() == [[[1, 2], [3, 4]]]


def test_a_shape_does_not_count_for_arrow() -> None:
    [form] = forms(pa.schema([("x", pa.list_(pa.string()))]), None, {"x": (2,)}, "arrow")
    assert not form.dense


def test_a_result_without_columns_makes_no_batches(local_client: Client) -> None:
    plan = sub.read_named_table("samples", {"n": sub.i64}).select().to_plan()
    with pytest.raises(tidegate.InvalidRequest, match="the result has no columns"):
        next(iter(Loader(local_client, plan, {"samples": pa.table({"n": [1, 2]})}, batch_size=2)))
