"""A column of a change: values that can be taken, joined, hashed and compared in a few NumPy calls.

Values of fixed width are in a NumPy array, beside an array of their nulls. Other values stay in an Arrow array. The
kind of a column follows from its type alone. Equal values have one form: -0.0 is 0.0, all NaNs are one, and the value
under a null is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ....proto.arrow.nested_types import with_types
from ....proto.arrow.without_rows import no_values
from ...arrays.hashing import Hashes, hash_array, hash_words
from ...core.interrupts import values_of
from ...core.wide_rows import wide_pool
from .plain_values import plain

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


_COMPARED: Final = 8 << 20
"""The bytes of values that are copied at once to be compared."""


class Column(Protocol):
    """An immutable column. `same` compares rows of two columns of one type; nulls equal each other."""

    def __len__(self) -> int: ...

    def take(self, rows: Index | Mask | slice) -> Self: ...

    def concat(self, others: Sequence[Self]) -> Self: ...

    def hashes(self) -> Hashes: ...

    def same(self, rows: Index, other: Self, others: Index) -> Mask: ...

    def nulls(self) -> Mask | None: ...

    def to_arrow(self, type_: pa.DataType) -> pa.Array: ...

    @property
    def nbytes(self) -> int: ...


class FixedColumn:
    """A column of values of fixed width: numbers, dates, times, booleans."""

    __slots__ = ("_nulls", "values")

    def __init__(self, values: npt.NDArray[Any], nulls: Mask | None = None) -> None:
        self.values = values
        self._nulls = nulls

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Index | Mask | slice) -> FixedColumn:
        if isinstance(rows, np.ndarray) and rows.dtype != np.bool_:  # much faster than by an index
            return FixedColumn(self.values.take(rows), None if self._nulls is None else self._nulls.take(rows))
        return FixedColumn(self.values[rows], None if self._nulls is None else self._nulls[rows])

    def concat(self, others: Sequence[FixedColumn]) -> FixedColumn:
        parts = (self, *others)
        values = np.concatenate([part.values for part in parts])
        if all(part._nulls is None for part in parts):
            return FixedColumn(values)
        return FixedColumn(values, np.concatenate([part._mask() for part in parts]))

    def hashes(self) -> Hashes:
        return hash_words(self._words(), self._nulls)

    def same(self, rows: Index, other: FixedColumn, others: Index) -> Mask:
        mine, theirs = self.values[rows], other.values[others]
        same: Mask = mine == theirs
        if mine.dtype.kind == "f":
            same |= np.isnan(mine) & np.isnan(theirs)
        if self._nulls is not None or other._nulls is not None:
            same &= self._mask()[rows] == other._mask()[others]
        return same

    def nulls(self) -> Mask | None:
        return self._nulls

    def to_arrow(self, type_: pa.DataType) -> pa.Array:
        storage = _STORAGE.get(type_.id)
        if storage is None:
            return pa.array(self.values, mask=self._nulls, type=type_)
        return pa.array(self.values, mask=self._nulls, type=storage).view(type_)

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) + (0 if self._nulls is None else int(self._nulls.nbytes))

    def _mask(self) -> Mask:
        return np.zeros(len(self.values), dtype=np.bool_) if self._nulls is None else self._nulls

    def _words(self) -> Hashes:
        values = self.values
        if values.dtype.kind == "f":
            wide = values.astype(np.float64)
            wide[np.isnan(wide)] = np.nan
            return wide.view(np.uint64)
        if values.dtype == np.int64:
            return values.view(np.uint64)
        return values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)


class ArrowColumn:
    """A column of texts, bytes, decimals, lists or structs. Maps are lists of their entries, UUIDs are bytes."""

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @property
    def arrays(self) -> list[pa.Array]:
        """The arrays that hold the values, one behind the other."""
        return [self.array]

    def take(self, rows: Index | Mask | slice) -> ArrowColumn:
        if isinstance(rows, slice):
            return ArrowColumn(self.array[rows])
        if rows.dtype == np.bool_:
            return ArrowColumn(self.array.filter(pa.array(rows)))
        return ArrowColumn(pc.take(self.array, pa.array(rows), memory_pool=wide_pool([self.array], len(rows))))

    def concat(self, others: Sequence[ArrowColumn]) -> ArrowColumn:
        arrays = [array for one in (self, *others) for array in one.arrays]
        return ArrowColumn(pa.concat_arrays(arrays, memory_pool=wide_pool(arrays, sum(map(len, arrays)))))

    def hashes(self) -> Hashes:
        return hash_array(self.array)

    def same(self, rows: Index, other: ArrowColumn, others: Index) -> Mask:
        bytes_each = (self.array.nbytes + other.array.nbytes) // max(len(self.array) + len(other.array), 1)
        step = max(_COMPARED // max(bytes_each, 1), 1)
        if len(rows) <= step:
            return self._same(rows, other, others)
        starts = range(0, len(rows), step)
        return np.concatenate([self._same(rows[at : at + step], other, others[at : at + step]) for at in starts])

    def _same(self, rows: Index, other: ArrowColumn, others: Index) -> Mask:
        mine, theirs = self.take(rows).array, other.take(others).array
        if kinds.is_nested(self.array.type):
            pairs = zip(values_of(plain(mine)), values_of(plain(theirs)), strict=True)
            return np.fromiter((_same_values(a, b) for a, b in pairs), dtype=np.bool_, count=len(mine))
        same: Mask = pc.equal(mine, theirs).fill_null(False).to_numpy(zero_copy_only=False)
        if mine.null_count or theirs.null_count:
            same = same | (_nulls(mine) & _nulls(theirs))
        return same

    def nulls(self) -> Mask | None:
        return _nulls(self.array) if self.array.null_count else None

    def to_arrow(self, type_: pa.DataType) -> pa.Array:
        if self.array.type.equals(type_):
            return self.array
        return self.array.view(type_) if _one_type(type_).equals(self.array.type) else self.array.cast(type_)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


_DAY: Final = {pa.date32().id: pa.int32(), pa.time32("s").id: pa.int32()}
_LONG: Final = {t.id: pa.int64() for t in (pa.date64(), pa.time64("us"), pa.timestamp("us"), pa.duration("us"))}
_STORAGE: Final[dict[int, pa.DataType]] = _DAY | _LONG
"""The storage types of types that are numbers under another name."""


def fixed(type_: pa.DataType) -> bool:
    """True where a column of this type is a `FixedColumn`."""
    return bool(
        kinds.is_integer(type_)
        or kinds.is_float32(type_)
        or kinds.is_float64(type_)
        or kinds.is_boolean(type_)
        or type_.id in _STORAGE
    )


def column(array: pa.Array) -> Column:
    """A column of an array's values."""
    type_ = array.type
    if not fixed(type_):
        return ArrowColumn(_one_form(array))
    nulls = _nulls(array) if array.null_count else None
    stored = array if (storage := _STORAGE.get(type_.id)) is None else array.view(storage)
    if nulls is not None:
        stored = stored.fill_null(False if kinds.is_boolean(type_) else pa.scalar(0, stored.type))
    values = stored.to_numpy(zero_copy_only=False)
    if kinds.is_floating(type_):
        values = values + values.dtype.type(0)  # -0.0 + 0.0 is 0.0
    return FixedColumn(values, nulls)


def empty_column(type_: pa.DataType) -> Column:
    return column(no_values(type_))


def _one_form(array: pa.Array) -> pa.Array:
    """The array in the one form of its type. Dictionaries are decoded, so that columns of one type can be joined; maps
    become lists of their entries, and UUIDs their bytes, which Arrow can compare.
    """
    if kinds.is_dictionary(array.type):
        return array.dictionary_decode()
    type_ = _one_type(array.type)
    return array if type_.equals(array.type) else array.view(type_)


def _one_type(type_: pa.DataType) -> pa.DataType:
    """The type of the same layout in which maps are lists, and values of extension types are as they are stored."""
    if isinstance(type_, pa.BaseExtensionType):
        return _one_type(type_.storage_type)
    if kinds.is_map(type_):
        entry = with_types(pa.struct([type_.key_field, type_.item_field]), _one_type)
        return pa.list_(pa.field("entries", entry, nullable=False))
    return with_types(type_, _one_type)


def _nulls(array: pa.Array) -> Mask:
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _same_values(left: Any, right: Any) -> bool:
    """Equality of values inside lists and structs, where NaN is equal to NaN."""
    match left, right:
        case float(), float():
            return left == right or (left != left and right != right)
        case list(), list():
            return len(left) == len(right) and all(map(_same_values, left, right))
        case dict(), dict():
            return left.keys() == right.keys() and all(_same_values(left[key], right[key]) for key in left)
        case _:
            return bool(left == right)
