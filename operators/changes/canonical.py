"""Canonical order: that of rows which have no order of their own.

All columns from left to right, ascending; nulls after everything, NaN after numbers, -0.0 as 0.0; the weight last.
Lists are compared element by element and come after their own beginnings; structs are compared field by field; inside
both, nulls and NaN are ordered as outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from .change import Change
from .columns import ArrowColumn, Column, FixedColumn, Index

_VALUE: Final = 0
_NAN: Final = 1
_NULL: Final = 2

Key: TypeAlias = Callable[[Any], Any]
"""Of a value that may be None, something Python can order."""


def canonical(change: Change) -> Change:
    """The same change in canonical order; it has no rounds."""
    return change if len(change) <= 1 else change.take(canonical_order(change))


def canonical_order(change: Change) -> Index:
    """Where in the change the rows of the canonical order stand."""
    keys = [key for column in change.rows.columns for key in _keys(column)]
    keys.append(change.weights)
    if len(keys) == 2 and (change.weights == change.weights[0]).all():
        return np.argsort(keys[0], kind="stable")
    return np.lexsort(keys[::-1])


def _keys(column: Column) -> Iterator[npt.NDArray[Any]]:
    """What the column is ordered by, the most significant first; NumPy too puts NaN last."""
    match column:
        case FixedColumn():
            nulls = column.nulls()
            if nulls is not None:
                yield nulls
            yield column.values
        case ArrowColumn(array=array) if kinds.is_nested(array.type):
            yield _ranks_of_nested(array)
        case ArrowColumn(array=array):
            yield _ranks(array)
        case _:
            raise TypeError(f"no order is known for a {type(column).__name__}")


def _ranks(array: pa.Array) -> npt.NDArray[np.uint64]:
    if kinds.is_null(array.type):
        return np.zeros(len(array), dtype=np.uint64)
    ranks: npt.NDArray[np.uint64] = pc.rank(_rankable(array), sort_keys="ascending", tiebreaker="dense").to_numpy(
        zero_copy_only=False
    )
    return ranks


def _rankable(array: pa.Array) -> pa.Array:
    type_ = array.type
    if type_ == pa.string_view():
        return array.cast(pa.large_string())
    if type_ == pa.binary_view():
        return array.cast(pa.large_binary())
    return array.cast(pa.float32()) if kinds.is_float16(type_) else array


def _ranks_of_nested(array: pa.Array) -> npt.NDArray[np.int64]:
    key = _key_of(array.type)
    keys = [key(value) for value in array.to_pylist()]
    places = {one: place for place, one in enumerate(sorted(set(keys)))}
    return np.fromiter((places[one] for one in keys), dtype=np.int64, count=len(keys))


def _key_of(type_: pa.DataType) -> Key:
    """How values of this type are ordered in Python."""
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
