"""Sums of decimals of up to 38 digits in NumPy: four parts of 32 bits each, so that no sum of parts overflows."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.layout import Words, flags

_LOW: Final = 0xFFFF_FFFF
_PARTS: Final = 4
_MOST_HIGH: Final = float(10**38 >> 64) * 0.99
"""Sums of smaller high words are those of numbers of at most 38 digits, whatever the low words are."""
WORD: Final = 1 << 62
"""The sum of two numbers below it fits into 64 bits."""


def decimal_words(array: pa.Array) -> tuple[Words, Words]:
    """The low and the high 64 bits of each value of a decimal128 array. The words below a null are arbitrary."""
    if not len(array):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), array.offset * 16)
    return words[::2], words[1::2]


def integers(array: pa.Array) -> pa.Array | None:
    """Whole decimals of a decimal128 array as 64-bit integers; None if one of them has more bits."""
    low, high = decimal_words(array)
    null = flags(array.is_null()) if array.null_count else None
    if null is not None:
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    if not np.array_equal(high, low >> 63):
        return None
    return pa.Array.from_buffers(pa.int64(), len(low), [validity(null), pa.py_buffer(np.ascontiguousarray(low))])


class DecimalSums:
    """Sums over neighbouring values. `null` is true for values that count as 0. The sums are right if the values fit:
    if no sum of some of them can have more than 38 digits. `narrow` sums fit into 64 bits.
    """

    def __init__(self, low: Words, high: Words, null: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> None:
        if null is not None:
            low, high = np.where(null, 0, low), np.where(null, 0, high)
        self.narrow = _fits(low, high)
        self.fits = self.narrow or float(np.abs(high.astype(np.float64)).sum()) + len(high) < _MOST_HIGH
        parts = [low] if self.narrow else [low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32]
        self._before = [_running(part) for part in parts]

    def between(self, first: Words, end: Words) -> tuple[Words, Words]:
        """The low and the high words of the sums of the values from each position `first` to before each `end`."""
        sums = [before[end] - before[first] for before in self._before]
        if self.narrow:
            return sums[0], sums[0] >> 63
        for at in range(_PARTS - 1):
            sums[at + 1] += sums[at] >> 32
            sums[at] &= _LOW
        return sums[0] | (sums[1] << 32), sums[2] | (sums[3] << 32)


def decimals(
    low: Words, high: Words, null: np.ndarray[tuple[int], np.dtype[np.bool_]] | None, type_: pa.DataType
) -> pa.Array:
    """Decimals of these words, null where `null` is true."""
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low, high
    return pa.Array.from_buffers(type_, len(low), [validity(null), pa.py_buffer(words)])


def validity(null: np.ndarray[tuple[int], np.dtype[np.bool_]] | None) -> pa.Buffer | None:
    """The validity buffer of an array that is null where `null` is true."""
    return pa.py_buffer(np.packbits(~null, bitorder="little")) if null is not None and null.any() else None


def _running(values: Words) -> Words:
    """For each position, the sum of the values before it."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _fits(low: Words, high: Words) -> bool:
    """Tests whether all sums of the values surely fit into 64 bits."""
    if not len(low):
        return True
    most = max(-int(low.min()), int(low.max()))
    return most * len(low) < WORD and bool(np.array_equal(high, low >> 63))
