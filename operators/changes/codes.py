"""Numbers in the order of values, so that rows of any types are sorted by NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..ordering import Order
from .columns import ArrowColumn, Column, FixedColumn, Index
from .rows import Rows

Codes = npt.NDArray[Any]

_SIGN: Final = np.uint64(1 << 63)


def order_of(rows: Rows, orders: Sequence[Order], *, after: Sequence[Codes] = ()) -> Index:
    """The rows in their order, first by the codes of `after`. Rows that are alike in all stay as they came."""
    codes: list[Codes] = list(after)
    for order in orders:
        codes.extend(codes_of(rows.columns[order.column], descending=order.descending, nulls_first=order.nulls_first))
    if not codes:
        return np.arange(len(rows))
    return np.lexsort(codes[::-1])


def canonical_orders(columns: int) -> list[Order]:
    """All columns from left to right, ascending, nulls last."""
    return [Order(column=at, descending=False, nulls_first=False) for at in range(columns)]


def codes_of(column: Column, *, descending: bool, nulls_first: bool) -> list[Codes]:
    """One or two arrays that sort as the values do: NaN above all numbers, nulls where they are wanted."""
    nulls = column.nulls()
    codes = _fixed(column) if isinstance(column, FixedColumn) else _ranks(column)
    if descending:
        codes = ~codes
    if nulls is None:
        return [codes]
    return [nulls ^ nulls_first, np.where(nulls, 0, codes)]


def _fixed(column: FixedColumn) -> Codes:
    values = column.values
    match values.dtype.kind:
        case "i":
            return values
        case "b" | "u":
            return values.astype(np.uint64)
        case _:
            bits = values.astype(np.float64).view(np.uint64)
            codes: Codes = np.where(bits & _SIGN, ~bits, bits | _SIGN)
            codes[np.isnan(values)] = np.iinfo(np.uint64).max
            return codes


def _ranks(column: Column) -> Codes:
    assert isinstance(column, ArrowColumn)
    array = column.array
    if kinds.is_nested(array.type):
        return _ranks_of_nested(array)
    ranks: Codes = pc.rank(array, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.astype(np.int64)


def _ranks_of_nested(array: pa.Array) -> Codes:
    """Lists and structs from left to right, value by value."""
    keys = [_key(value) for value in array.to_pylist()]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.zeros(len(keys), dtype=np.int64)
    for before, at in itertools.pairwise(order):
        ranks[at] = ranks[before] + (keys[before] != keys[at])
    return ranks


def _key(value: Any) -> tuple[Any, ...]:
    """What sorts as the value does, nulls last and NaN above all numbers."""
    match value:
        case None:
            return (1,)
        case float():
            return (0, value != value, 0.0 if value != value else value)
        case dict():
            return (0, tuple(_key(item) for item in value.values()))
        case list() | tuple():
            return (0, tuple(_key(item) for item in value))
        case _:
            return (0, value)
