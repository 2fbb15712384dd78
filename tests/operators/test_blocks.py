from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.core.blocks import BLOCK_ROWS, Part, blocks, parts
from tidegate.operators.core.sizes import row_bytes

from ..searching import tries


def batches(*sizes: int) -> list[pa.RecordBatch]:
    ends = itertools.accumulate(sizes)
    return [pa.record_batch({"x": list(range(end - size, end))}) for end, size in zip(ends, sizes, strict=True)]


@given(st.lists(st.integers(0, 25)), st.integers(1, 10))
def test_all_rows_in_order_in_full_blocks_and_a_short_last_one(sizes: list[int], rows: int) -> None:
    cut = list(blocks(batches(*sizes), rows))
    assert [x for block in cut for x in block["x"].to_pylist()] == list(range(sum(sizes)))
    assert all(block.num_rows == rows for block in cut[:-1])
    assert all(0 < block.num_rows <= rows for block in cut[-1:])


def test_a_block_has_65536_rows() -> None:
    assert [block.num_rows for block in blocks(batches(200_000))] == [BLOCK_ROWS] * 3 + [200_000 - 3 * BLOCK_ROWS]


@pytest.mark.parametrize("sizes", [(BLOCK_ROWS,), (3 * BLOCK_ROWS,)])
def test_a_block_inside_one_batch_is_not_copied(sizes: tuple[int, ...]) -> None:
    given_batches = batches(*sizes)
    first = next(blocks(given_batches))
    assert first["x"].buffers()[1].address == given_batches[0]["x"].buffers()[1].address


def test_one_row_batches_become_blocks() -> None:
    rows = [pa.record_batch({"x": [i]}) for i in range(5_000)]
    assert [block["x"].to_pylist() for block in blocks(rows, 2_500)] == [list(range(2_500)), list(range(2_500, 5_000))]


def test_no_batch_is_asked_for_before_it_is_needed() -> None:
    pulled = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for batch in batches(10, 10, 10):
            pulled += 1
            yield batch

    next(blocks(source(), 5))
    assert pulled == 1


def texts(*lengths: int | None) -> pa.RecordBatch:
    values = [None if length is None else "x" * length for length in lengths]
    return pa.record_batch({"x": pa.array(values, pa.string())})


def test_a_block_ends_before_the_row_with_which_it_would_be_too_large() -> None:
    cut = list(blocks([texts(40, 30, 30, 1, 99, None, 2)], 100, 100))
    assert [[len(x or "") for x in block["x"].to_pylist()] for block in cut] == [[40, 30, 30], [1, 99, 0], [2]]


def test_a_row_that_is_larger_than_a_block_is_one_by_itself() -> None:
    cut = list(blocks([texts(5, 300, 200, 5, 6)], 100, 100))
    assert [block.num_rows for block in cut] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_binary(),
        pa.list_(pa.string()),
        pa.list_(pa.list_(pa.int32())),
        pa.struct([("a", pa.string()), ("b", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.string(), 2),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
@settings(max_examples=tries(15))
@given(data=st.data())
def test_blocks_end_at_the_same_rows_however_they_come(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), values_of(type_)), max_size=30))
    batch = pa.record_batch({"x": pa.array(values, type_)})
    whole = [block.num_rows for block in blocks([batch], 20, 40)]
    cuts = sorted({0, len(values), *data.draw(st.lists(st.integers(0, len(values)), max_size=8))})
    parts = [batch.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    if data.draw(st.booleans()):
        parts = [pa.record_batch({"x": pa.array(part["x"].to_pylist(), type_)}) for part in parts]
    cut = list(blocks(parts, 20, 40))
    assert [block.num_rows for block in cut] == whole
    assert [x for block in cut for x in block["x"].to_pylist()] == batch["x"].to_pylist()


def values_of(type_: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_fixed_size_list(type_):
        return st.lists(values_of(type_.value_type), min_size=type_.list_size, max_size=type_.list_size)
    if pa.types.is_list(type_):
        return st.lists(st.one_of(st.none(), values_of(type_.value_type)), max_size=4)
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: values_of(field.type) for field in type_})
    if pa.types.is_map(type_):
        return st.lists(st.tuples(values_of(type_.key_type), values_of(type_.item_type)), max_size=4)
    if pa.types.is_integer(type_):
        return st.integers(-100, 100)
    length = st.integers(0, 12)
    if pa.types.is_large_binary(type_):
        return length.map(lambda n: b"x" * n)
    return length.map(lambda n: "x" * n)


def test_rows_are_counted_by_their_values_whatever_nulls_hide() -> None:
    hidden = pa.Array.from_buffers(
        pa.string(),
        3,
        [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 2, 50, 51], np.int32)), pa.py_buffer(b"x" * 51)],
    )
    plain = pa.array(["xx", None, "x"])
    assert row_bytes(pa.record_batch({"x": hidden})).tolist() == row_bytes(pa.record_batch({"x": plain})).tolist()


def whole(cut: Iterable[Part]) -> Iterator[pa.RecordBatch]:
    """The blocks that the parts belong to."""
    held: list[pa.RecordBatch] = []
    for part in cut:
        held.append(part.rows)
        if part.ends:
            yield pa.concat_batches(held)
            held = []
    assert not held


@given(
    st.lists(st.lists(st.none() | st.integers(0, 60), max_size=12), max_size=8),
    st.integers(1, 10),
    st.integers(1, 200),
    st.integers(1, 80),
)
def test_the_parts_of_blocks_are_the_blocks(
    lengths: list[list[int | None]], rows: int, size: int, part_size: int
) -> None:
    given_batches = [texts(*some) for some in lengths]
    cut = list(parts(given_batches, rows, size, part_size))
    assert list(whole(cut)) == list(blocks(given_batches, rows, size))
    assert all(part.rows.num_rows == 1 or row_bytes(part.rows).sum() <= part_size for part in cut)


def test_a_block_of_narrow_rows_is_one_part() -> None:
    assert [(part.rows.num_rows, part.ends) for part in parts(batches(100_000))] == [
        (BLOCK_ROWS, True),
        (100_000 - BLOCK_ROWS, True),
    ]


def test_parts_hold_no_more_than_a_part_and_a_batch() -> None:
    alive: list[weakref.ref[pa.RecordBatch]] = []

    def source() -> Iterator[pa.RecordBatch]:
        for _ in range(12):
            batch = texts(*[1_000] * 1_000)
            alive.append(weakref.ref(batch))
            yield batch
            del batch
            assert sum(reference() is not None for reference in alive) <= 4

    assert sum(part.rows.num_rows for part in parts(source())) == 12_000
