"""Rows that leave the process carry zeros behind their nulls, and the same values as before."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import types as kinds

from tidegate.operators.arrays.behind_nulls import cleared

SIMPLE = {
    pa.int8(): st.integers(-100, 100),
    pa.int64(): st.integers(-(2**60), 2**60),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=4),
    pa.large_binary(): st.binary(max_size=4),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary(0): st.just(b""),
    pa.decimal128(20, 2): st.integers(-(10**17), 10**17).map(lambda value: Decimal(value).scaleb(-2)),
    pa.timestamp("us", "UTC"): st.integers(0, 2**40).map(
        lambda us: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)
    ),
    pa.month_day_nano_interval(): st.integers(0, 9).map(lambda number: pa.MonthDayNano([number, number, number])),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b", "c"]),
}


def values_of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, and nulls."""
    if kinds.is_struct(type_):
        inside: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {type_.field(at).name: values_of(type_.field(at).type) for at in range(type_.num_fields)}
        )
    elif kinds.is_map(type_):
        inside = st.dictionaries(SIMPLE[type_.key_type], values_of(type_.item_type), max_size=2).map(
            lambda entries: list(entries.items())
        )
    elif kinds.is_fixed_size_list(type_):
        inside = st.lists(values_of(type_.value_type), min_size=type_.list_size, max_size=type_.list_size)
    elif kinds.is_list(type_) or kinds.is_large_list(type_):
        inside = st.lists(values_of(type_.value_type), max_size=3)
    else:
        inside = SIMPLE[type_]
    return st.none() | inside


TYPES = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda type_: pa.list_(type_, 2)),
        inner.map(lambda type_: pa.map_(pa.string(), type_)),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda types: pa.struct([pa.field(f"f{at}", type_) for at, type_ in enumerate(types)])
        ),
    ),
    max_leaves=3,
)


@st.composite
def arrays(draw: st.DrawFn) -> pa.Array:
    type_ = draw(TYPES.filter(lambda type_: "dictionary" not in str(type_) or not kinds.is_nested(type_)))
    return pa.array(draw(st.lists(values_of(type_), max_size=12)), type_)


def soiled(array: pa.Array, seed: int, above: np.ndarray[Any, Any] | None = None) -> pa.Array:
    """The same values with other bytes behind the nulls."""
    type_, rows = array.type, len(array)
    nulls = np.asarray(array.is_null())
    hidden = nulls if above is None else nulls | above
    if above is not None:
        nulls = np.where(above, np.random.default_rng(seed).integers(0, 2, rows).astype(bool), nulls)
    validity = pa.py_buffer(np.packbits(np.append(~nulls, [seed % 2 == 0] * 7), bitorder="little"))
    if kinds.is_struct(type_):
        children = [soiled(array.field(at), seed + at, hidden) for at in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=pa.array(nulls))
    if kinds.is_fixed_size_list(type_):
        size = type_.list_size
        items = soiled(array.values.slice(array.offset * size, rows * size), seed, np.repeat(hidden, size))
        return pa.Array.from_buffers(type_, rows, [validity], children=[items])
    if kinds.is_nested(type_) or kinds.is_dictionary(type_):
        return array
    if kinds.is_boolean(type_):
        noise = np.random.default_rng(seed).integers(0, 2, rows).astype(bool)
        values = np.where(hidden, noise, np.asarray(array.fill_null(False)))
        return pa.Array.from_buffers(type_, rows, [validity, pa.py_buffer(np.packbits(values, bitorder="little"))])
    if array.buffers()[-1] is None or len(array.buffers()) != 2:
        return array
    width = type_.bit_width // 8
    data = np.frombuffer(array.buffers()[1], np.uint8, rows * width, array.offset * width).reshape(rows, width).copy()
    data[hidden] = np.random.default_rng(seed).integers(1, 255, (int(hidden.sum()), width))
    return pa.Array.from_buffers(type_, rows, [validity, pa.py_buffer(data)])


def message(array: pa.Array) -> bytes:
    schema = pa.schema([pa.field("c", array.type)])
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(cleared(pa.record_batch([array], schema=schema)))
        return bytes(sink.getvalue())


@given(arrays(), st.integers(0, 12))
def test_the_values_stay_as_they_are(array: pa.Array, start: int) -> None:
    part = array.slice(start)
    after = cleared(pa.record_batch([part], ["c"])).column(0)
    after.validate(full=True)
    assert after.type == part.type
    assert after.to_pylist() == part.to_pylist()


@given(arrays())
def test_the_bytes_are_a_function_of_the_values(array: pa.Array) -> None:
    assert message(soiled(array, 1)) == message(soiled(array, 2))


def test_the_bits_behind_the_last_row_are_cleared_of_values_without_bytes() -> None:
    array = pa.array([None], pa.binary(0))
    assert message(soiled(array, 1)) == message(soiled(array, 2))


def test_texts_and_items_that_lie_behind_nulls_are_dropped() -> None:
    texts = pa.StringArray.from_buffers(
        3, pa.py_buffer(np.array([0, 2, 8, 10], np.int32)), pa.py_buffer(b"abSECRETcd"), pa.py_buffer(b"\x05")
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 3, 4], pa.int32()), [1, 2, 77, 3], mask=pa.array([False, True, False])
    )
    after = cleared(pa.record_batch([texts, lists], ["t", "l"]))
    assert after.to_pydict() == {"t": ["ab", None, "cd"], "l": [[1, 2], None, [3]]}
    assert after["l"].values.to_pylist() == [1, 2, 3]
    assert b"SECRET" not in bytes(after.serialize())


@pytest.mark.parametrize("array", [pa.array([1, 2]), pa.array(["a"]), pa.array([[1], []]), pa.nulls(3)], ids=str)
def test_a_batch_with_nothing_to_clear_is_not_copied(array: pa.Array) -> None:
    batch = pa.record_batch([array], ["c"])
    assert cleared(batch) is batch
