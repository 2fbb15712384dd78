"""Exact sums of integers and decimals: each number in parts of 32 bits, which can be summed by themselves.

A part times a weight is below 2**63 for weights below 2**31, and so is the sum of 2**31 parts: more copies of rows
than that in one group are an error, never a wrong sum.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from ....proto.errors import ExecutionError
from .change import Numbers
from .value_columns import ArrowColumn, Column, FixedColumn

_BITS: Final = np.int64(32)
_LOW: Final = np.int64((1 << 32) - 1)


def limbs_of(type_: pa.DataType) -> int:
    """The number of parts of a sum of this type."""
    return 4 if kinds.is_decimal(type_) else 3


def split(column: Column) -> list[Numbers]:
    """The parts of all values, the lowest first: an array for each part. The parts of a null are 0."""
    if isinstance(column, FixedColumn):
        values = column.values
        if values.dtype == np.uint64:
            low, high = (values & np.uint64(_LOW)).astype(np.int64), (values >> np.uint64(32)).astype(np.int64)
            return [low, high, np.zeros(len(values), dtype=np.int64)]
        wide = values.astype(np.int64, copy=False)
        return [wide & _LOW, wide >> _BITS, np.zeros(len(wide), dtype=np.int64)]
    assert isinstance(column, ArrowColumn)
    words = _words(column.array)
    low, high = words[:, 0], words[:, 1]
    # The upper half of an unsigned word, without its sign.
    parts = [low & _LOW, (low >> _BITS) & _LOW, high & _LOW, high >> _BITS]
    if column.array.null_count:
        there = column.array.is_valid().to_numpy(zero_copy_only=False)
        parts = [part * there for part in parts]
    return parts


def carried(sums: Numbers) -> Numbers:
    """The same sums with each part but the highest in 32 bits."""
    parts = sums.copy()
    for at in range(parts.shape[1] - 1):
        parts[:, at + 1] += parts[:, at] >> _BITS
        parts[:, at] &= _LOW
    return parts


class TooLarge(ExecutionError):
    """The sum number `at` has no place in its type. It travels as an `ExecutionError`."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence, reason="OVERFLOW")
        self.at = at

    def of(self, key: str) -> TooLarge:
        """The error with the key whose sum it is."""
        return TooLarge(f"{self.message}, in the rows of the key {key}", self.at)


def to_int64(sums: Numbers, plan_path: str) -> Numbers:
    """Sums as 64-bit integers. Raises an error that says where, if a sum does not fit."""
    parts = carried(sums)
    high = parts[:, 1] | (parts[:, 2] << _BITS)
    fits = (high >= -(1 << 31)) & (high < 1 << 31)
    if not fits.all():
        first = int(np.flatnonzero(~fits)[0])
        value = sum(int(part) << (32 * at) for at, part in enumerate(parts[first]))
        raise TooLarge(f"{plan_path}: a sum is {value}, which is beyond 64 bits", first)
    whole: Numbers = (high << _BITS) | parts[:, 0]
    return whole


def to_decimal(sums: Numbers, nulls: npt.NDArray[np.bool_], type_: pa.DataType, plan_path: str) -> pa.Array:
    """Sums as decimals of 38 digits and the type's scale. Raises an error that says where, if a sum has more digits."""
    parts = carried(sums)
    if parts.shape[1] == 3:
        parts = np.concatenate([parts[:, :2], (parts[:, 2] & _LOW)[:, None], (parts[:, 2] >> _BITS)[:, None]], axis=1)
    wide = np.flatnonzero((parts[:, 3] < -(1 << 31)) | (parts[:, 3] >= 1 << 31))
    if len(wide):
        raise TooLarge(f"{plan_path}: a sum has more than 38 digits", int(wide[0]))
    words = np.empty((len(parts), 2), dtype=np.int64)
    words[:, 0] = parts[:, 0] | (parts[:, 1] << _BITS)
    words[:, 1] = parts[:, 2] | (parts[:, 3] << _BITS)
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    array = pa.Array.from_buffers(type_, len(parts), [valid, pa.py_buffer(words.tobytes())])
    array.validate(full=True)
    return array


def _words(array: pa.Array) -> npt.NDArray[Any]:
    if not len(array):
        return np.empty((0, 2), dtype=np.int64)
    start = array.offset * 2
    return np.frombuffer(array.buffers()[1], dtype=np.int64)[start : start + 2 * len(array)].reshape(-1, 2)
