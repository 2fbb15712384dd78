"""Columns of keys and states, from their numbers in NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.layout import Flags, Words
from .wide_sums import decimals, validity


def repeated(number: int | None, rows: int, type_: pa.DataType) -> pa.Array:
    """A column of one number, or of nulls."""
    return column_of_numbers(np.full(rows, number or 0), None if number is not None else np.ones(rows, np.bool_), type_)


def ascending_numbers(at: Words, offset: int, begins_with_null: bool, type_: pa.DataType) -> pa.Array:
    """A column of these numbers and the offset. Only the first one may stand for null."""
    null = None
    if begins_with_null:
        null = np.zeros(len(at), np.bool_)
        null[0] = True
    return column_of_numbers(at + offset, null, type_)


def column_of_numbers(numbers: Words, null: Flags | None, type_: pa.DataType) -> pa.Array:
    """A column of these numbers, null where `null` is true."""
    if null is None or not null.any():
        null = None
    else:
        numbers = np.where(null, 0, numbers)
    if kinds.is_decimal(type_):
        return decimals(numbers, numbers >> 63, null, type_)
    words = np.ascontiguousarray(numbers, f"i{type_.bit_width // 8}")
    return pa.Array.from_buffers(type_, len(words), [validity(null), pa.py_buffer(words)])
