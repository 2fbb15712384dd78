"""The keys of an index's rows, to tell which rows of a matching hash have the keys of the look-up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from ..arrays.hashing import SETTLED_BYTES, one_to_one
from ..arrays.layout import arrow_positions
from ..core.sizes import is_text
from .equality import equal_keys
from .index import RowNumbers, is_every

Booleans: TypeAlias = npt.NDArray[np.bool_]


class KeptKeys(ABC):
    @abstractmethod
    def same(self, positions: RowNumbers, keys: Sequence[pa.Array], rows: RowNumbers) -> Booleans | None:
        """True for each pair with equal keys, among pairs of a row at a position and one of `keys` with equal hashes;
        None where all keys are equal.
        """


def kept_keys(arrays: Sequence[pa.Array]) -> KeptKeys:
    """The kept keys of columns of one length, in which no value is null."""
    if len(arrays) > 1:
        return _Any(arrays)
    [array] = arrays
    if one_to_one(array.type):
        return _Words()
    return _Texts(array) if is_text(array.type) else _Any(arrays)


def bits_say_equal(type_: pa.DataType) -> bool:
    """True where equal keys of this type are the same value, so that one may stand for the other."""
    return bool(
        kinds.is_integer(type_)
        or kinds.is_boolean(type_)
        or kinds.is_date32(type_)
        or kinds.is_timestamp(type_)
        or kinds.is_time(type_)
        or kinds.is_decimal(type_)
        or is_text(type_)
    )


class _Words(KeptKeys):
    """Keys that are equal where their hashes are."""

    def same(self, positions: RowNumbers, keys: Sequence[pa.Array], rows: RowNumbers) -> Booleans | None:  # noqa: ARG002
        return None


class _Any(KeptKeys):
    """Keys whose values are taken and compared."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = tuple(arrays)

    def same(self, positions: RowNumbers, keys: Sequence[pa.Array], rows: RowNumbers) -> Booleans | None:
        taken = pa.array(positions)
        return equal_keys([array.take(taken) for array in self._arrays], [values_at(column, rows) for column in keys])


class _Texts(KeptKeys):
    """Keys of text. Short texts, as most keys are, are equal where their hashes and lengths are; only longer ones are
    taken and compared.
    """

    def __init__(self, array: pa.Array) -> None:
        self._array = array
        self._offsets = _offsets(array)

    def same(self, positions: RowNumbers, keys: Sequence[pa.Array], rows: RowNumbers) -> Booleans | None:
        [key] = keys
        lengths = np.diff(_offsets(key))
        wanted = lengths if is_every(rows, len(lengths)) else lengths[rows]
        same: Booleans = self._offsets.take(positions + 1) - self._offsets.take(positions) == wanted
        open_ = np.flatnonzero(same & (wanted > SETTLED_BYTES))
        if open_.size:
            kept_values, asked = self._array.take(pa.array(positions[open_])), key.take(pa.array(rows[open_]))
            same[open_] = equal_keys([kept_values], [asked])
        return same


def values_at(column: pa.Array, rows: RowNumbers) -> pa.Array:
    """The values of these ascending rows."""
    return column if is_every(rows, len(column)) else column.take(arrow_positions(rows))


def _offsets(array: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    """The offsets at which each value begins, and the offset at which the last one ends."""
    large = kinds.is_large_string(array.type) or kinds.is_large_binary(array.type)
    dtype = np.dtype(np.int64 if large else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(1, dtype)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
