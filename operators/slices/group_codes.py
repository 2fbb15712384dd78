"""Numbers for combinations of key values: equal ones have the same number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..arrays.layout import Words, dtype_of, stored, values

_MOST: Final = 1 << 62
_DENSE: Final = 4
"""Whole numbers are their own codes if they are in a range of so many numbers for each row."""


def obstacle(type_: pa.DataType) -> str | None:
    """The reason why keys of this type get no numbers; None if they get some."""
    known = (
        dtype_of(type_) is not None
        or kinds.is_boolean(type_)
        or kinds.is_decimal128(type_)
        or kinds.is_string(type_)
        or kinds.is_binary(type_)
    )
    return None if known else f"keys of type {type_} get no numbers"


def group_codes(columns: Sequence[pa.Array], rows: int) -> tuple[Words, int]:
    """The number of each row's combination of values, and a bound above all numbers. Null equals null, NaN equals NaN,
    -0.0 equals 0.0.
    """
    codes, most = np.zeros(rows, np.int64), 1
    for column in columns:
        own, own_most = _codes(column)
        if most * own_most > _MOST:
            _, codes = np.unique(codes, return_inverse=True)
            most = rows
        codes = own if most == 1 else codes * own_most + own
        most *= own_most
    return codes, max(most, 1)


def keeps_order(type_: pa.DataType, least: int, most: int, rows: int) -> bool:
    """Tests whether so many values of this type, none of which is null, get numbers in their order."""
    return (dtype_of(type_) or "").startswith("i") and most - least < _DENSE * rows


def _codes(column: pa.Array) -> tuple[Words, int]:
    if kinds.is_floating(column.type):
        column = _one_of_equals(column)
    elif not column.null_count and len(column) and dtype_of(column.type) is not None:
        numbers = values(column)
        least, most = int(numbers.min()), int(numbers.max())
        if keeps_order(column.type, least, most, len(column)):
            return numbers.astype(np.int64) - least, most - least + 1
    encoded = stored(column).dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _one_of_equals(column: pa.Array) -> pa.Array:
    """Floats in which equal ones have the same bits."""
    numbers = values(column) + 0.0
    numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers).astype(numbers.dtype)
    return pc.if_else(column.is_valid(), pa.array(numbers), pa.scalar(None, column.type))
