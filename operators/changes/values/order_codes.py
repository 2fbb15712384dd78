"""Numbers in the order of values, so that rows of any types are sorted by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...arrays.ordering import Descending, Order
from ...core.interrupts import beside, look, values_of
from .plain_values import plain
from .rows import Rows
from .value_columns import ArrowColumn, Column, FixedColumn, Index

Codes = npt.NDArray[Any]

_SIGN: Final = np.uint64(1 << 63)
_VALUE: Final = 0
_NAN: Final = 1
_NULL: Final = 2

Key: TypeAlias = Callable[[Any], Any]
"""A function from a value that may be None to a value that Python can order."""


def order_of(
    rows: Rows,
    orders: Sequence[Order],
    *,
    after: Sequence[Codes] = (),
    then: Sequence[Codes] = (),
    at: Index | None = None,
) -> Index:
    """The positions of the rows in order: first by the codes of `after`, then by `orders`, last by the codes of `then`.
    Rows that are alike in all keep their order. Where only the rows `at` some positions are to be put in order, these
    are numbered, and need not be taken: rows may be long.
    """
    count = len(rows) if at is None else len(at)
    return beside(lambda: _order_of(rows, orders, after, then, at), count)


def _order_of(
    rows: Rows, orders: Sequence[Order], after: Sequence[Codes], then: Sequence[Codes], at: Index | None
) -> Index:
    """The first code that differs at all tells most rows apart, as a key does: only the others need more codes."""
    codes = dropwhile(_all_alike, _codes(rows, orders, after, then, at))
    first = next(codes, None)
    if first is None:
        return np.arange(len(rows) if at is None else len(at))
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    alike = ordered[1:] == ordered[:-1]
    if ordered.dtype.kind == "f":
        alike |= np.isnan(ordered[:-1])  # behind which there are only others
    tied = np.concatenate(([False], alike)) | np.concatenate((alike, [False]))
    del ordered, alike
    among = np.flatnonzero(tied)
    if not len(among):
        return order
    if 2 * len(among) > len(order):
        more = list(codes)
        return np.lexsort([*reversed(more), first]) if more else order
    some = order[among]
    of_some = [codes[some] for codes in after], [codes[some] for codes in then]
    more = list(_codes(rows, orders, *of_some, some if at is None else at[some]))
    order[among] = some[np.lexsort(more[::-1])]
    return order


def _codes(
    rows: Rows, orders: Sequence[Order], after: Sequence[Codes], then: Sequence[Codes], at: Index | None
) -> Iterator[Codes]:
    """The codes of rows, made as they are asked for."""
    yield from after
    for order in orders:
        look()
        column = rows.columns[order.column]
        some = column if at is None else column.take(at)
        yield from codes_of(some, descending=order.descending, nulls_first=order.nulls_first)
    yield from then


def _all_alike(codes: Codes) -> bool:
    return not len(codes) or bool(codes[0] == codes[-1] and np.count_nonzero(codes == codes[0]) == len(codes))


def canonical_orders(columns: int) -> list[Order]:
    """All columns from left to right, ascending, nulls last."""
    return [Order(column=at, descending=False, nulls_first=False) for at in range(columns)]


def orders_of(columns: int, first: Sequence[Order]) -> list[Order]:
    """`first`, each column once, then all other columns in canonical order."""
    by_column = {order.column: order for order in reversed(first)}
    named = dict.fromkeys(order.column for order in first)
    return [by_column.pop(at) for at in named] + [
        canonical_order for canonical_order in canonical_orders(columns) if canonical_order.column not in named
    ]


def sort_key(type_: pa.DataType, *, descending: bool, nulls_first: bool) -> Key:
    """A function from a value of this plain type to a value that Python orders as `codes_of` orders values."""
    key = _key_of(type_)

    def sorted_by(value: Any) -> Any:
        if value is None:
            return (0 if nulls_first else 2,)
        return (1, Descending(key(value)) if descending else key(value))

    return sorted_by


def codes_of(column: Column, *, descending: bool, nulls_first: bool) -> list[Codes]:
    """One or two arrays that sort as the values do: NaN above all numbers, nulls where they are wanted."""
    nulls = column.nulls()
    codes = _fixed(column, descending=descending) if isinstance(column, FixedColumn) else _ranks(column)
    if descending:
        codes = ~codes
    if nulls is None:
        return [codes]
    return [nulls ^ nulls_first, np.where(nulls, 0, codes)]


def _fixed(column: FixedColumn, *, descending: bool) -> Codes:
    values = column.values
    if not descending or values.dtype.kind != "f":
        return values  # NumPy too puts NaN last
    bits = values.astype(np.float64).view(np.uint64)
    codes: Codes = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    codes[np.isnan(values)] = np.iinfo(np.uint64).max
    return codes


def _ranks(column: Column) -> Codes:
    assert isinstance(column, ArrowColumn)
    array = column.array
    if kinds.is_nested(array.type):
        return _ranks_of_nested(array)
    if kinds.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64)
    ranks: Codes = pc.rank(_rankable(array), sort_keys="ascending", tiebreaker="dense").to_numpy()
    return ranks.view(np.int64)


def _rankable(array: pa.Array) -> pa.Array:
    type_ = array.type
    if type_ == pa.string_view():
        return array.cast(pa.large_string())
    if type_ == pa.binary_view():
        return array.cast(pa.large_binary())
    return array.cast(pa.float32()) if kinds.is_float16(type_) else array


def _ranks_of_nested(array: pa.Array) -> npt.NDArray[np.int64]:
    values = plain(array)
    key = _key_of(values.type)
    keys = [key(value) for value in values_of(values)]
    positions = {one: position for position, one in enumerate(sorted(set(keys)))}
    return np.fromiter((positions[one] for one in keys), dtype=np.int64, count=len(keys))


def _key_of(type_: pa.DataType) -> Key:
    """The Python order of values of this type."""
    if kinds.is_struct(type_):
        fields = [(field.name, _key_of(field.type)) for field in type_]
        return _or_null(lambda value: tuple(key(value[name]) for name, key in fields))
    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        element = _key_of(type_.value_type)
        return _or_null(lambda value: tuple(map(element, value)))
    if kinds.is_floating(type_):
        return lambda value: (_NULL,) if value is None else (_NAN,) if value != value else (_VALUE, value + 0.0)
    return _or_null(lambda value: value)


def _or_null(key: Key) -> Key:
    return lambda value: (_NULL,) if value is None else (_VALUE, key(value))
