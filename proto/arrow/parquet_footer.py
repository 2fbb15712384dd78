"""The footer of a Parquet file, read by Tidegate itself.

pyarrow reads a footer too. But pyarrow's calls about the columns of a row group cannot raise: where the footer is
damaged (a chunk is missing, a bound has the wrong length), these calls end the process. So this module answers such
questions, and raises `thrift.Damaged`, a `ValueError`, for a damaged footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import types as kinds

from .thrift import BINARY, INTEGER, LENGTH, Damaged, Shape, Struct, list_of, read, struct_of

BYTE_ARRAY: Final = 6
INT96: Final = 3
_INT32: Final = 1
FIXED: Final = 7
_INT64: Final = 2
_REQUIRED: Final = 0
_REPEATED: Final = 2
#: The encodings of values as places in a dictionary.
DICTIONARY_ENCODINGS: Final = frozenset({2, 8})
_LEVEL_ENCODINGS: Final = frozenset({3, 4})
_VALUE_PAGES: Final = frozenset({0, 3})
#: The bytes of a bound, by physical type; of texts and bytes it may be any number.
_BOUND_BYTES: Final = {0: 1, _INT32: 4, _INT64: 8, INT96: 12, 4: 4, 5: 8}
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
#: A footer takes several times as much once it is read.
_LARGEST: Final = 64 << 20
_LARGEST_KEPT: Final = 256 << 10
_FOOTERS_KEPT: Final = 16
#: Of a timestamp, by its old name and by the number of its unit.
_CONVERTED_UNITS: Final = {9: "ms", 10: "us"}
_UNITS: Final = {1: "ms", 2: "us", 3: "ns"}
_MICROSECONDS: Final = {"ms": 1_000, "us": 1}
_UNSIGNED: Final = frozenset({11, 12, 13, 14})

_Bounds = tuple[bytes, bytes]


class RandomFile(Protocol):
    """The file that a footer is read from."""

    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of values. `path` begins with the column of the file that the leaf is in. `unit` is the unit of a
    timestamp. `old_bounds` says whether the bounds of old writers hold for this leaf: old writers compared all values
    as signed numbers. `width` is the bytes of a value as it is decoded, 0 for texts and bytes. `repeats` is the number
    of lists around a value. `has_levels` says whether pages say which values are there.
    """

    path: tuple[str, ...]
    physical: int
    unit: str | None
    old_bounds: bool
    width: int
    repeats: int
    has_levels: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """A leaf's values in one row group, nulls included. They take `compressed` bytes of the file from `start` on. If
    `is_coded`, all of them are written as places in the chunk's dictionary.
    """

    physical: int
    codec: int
    values: int
    start: int
    compressed: int
    uncompressed: int
    has_dictionary: bool
    is_coded: bool
    nulls: int | None
    bounds: _Bounds | None
    old_bounds: _Bounds | None

    @property
    def end(self) -> int:
        """The byte behind its last one."""
        return self.start + self.compressed


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group. Its `chunks` are in the order of the footer's leaves."""

    rows: int
    byte_size: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Footer:
    """A file's footer. `ordered` says whether the bounds follow the order of the values' type, `is_kept` whether the
    footer is small enough that the next reading of the same bytes gives this very value.
    """

    leaves: tuple[Leaf, ...]
    groups: tuple[RowGroup, ...]
    ordered: bool
    is_kept: bool

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of the leaf of each column that is itself a leaf."""
        return {leaf.path[0]: at for at, leaf in enumerate(self.leaves) if len(leaf.path) == 1}

    def bounds(self, group: RowGroup, at: int) -> _Bounds | None:
        """The least and the greatest value of a leaf in a row group, as the file has them."""
        leaf, chunk = self.leaves[at], group.chunks[at]
        bounds = chunk.bounds if self.ordered else chunk.old_bounds if leaf.old_bounds else None
        size = _BOUND_BYTES.get(leaf.physical)
        if bounds is not None and size is not None and any(len(bound) != size for bound in bounds):
            raise Damaged(f"the bounds of column {'.'.join(leaf.path)!r} have another length than its values")
        return bounds


def read_footer(file: RandomFile) -> Footer:
    """The footer of a file. Raises `Damaged`, and `OSError`."""
    size = file.size()
    tail = bytes(file.read_at(_TAIL, max(size - _TAIL, 0)))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL:
        raise Damaged("the file does not end as a Parquet file must")
    if length > _LARGEST:
        raise Damaged(f"its footer has {length:,} bytes; at most {_LARGEST:,} are allowed")
    data = bytes(file.read_at(length, size - _TAIL - length))
    return _kept_footer(data, size) if length <= _LARGEST_KEPT else _footer(data, size)


def _footer(data: bytes, size: int) -> Footer:
    """The footer in these bytes, of a file of this size."""
    fields, _ = read(data, 0, _FILE)
    leaves = _leaves(fields.get(2, []))
    groups = tuple(fields.get(4, ()))
    for group in groups:
        _check(group, leaves, size)
    if sum(group.rows for group in groups) != fields.get(3):
        raise Damaged("its row groups have another number of rows than the file")
    return Footer(leaves, groups, ordered=7 in fields, is_kept=len(data) <= _LARGEST_KEPT)


#: A file's footer is read when its split is accepted, and again when its rows are.
_kept_footer: Final = lru_cache(maxsize=_FOOTERS_KEPT)(_footer)


def _check(group: RowGroup, leaves: Sequence[Leaf], size: int) -> None:
    if len(group.chunks) != len(leaves):
        raise Damaged(f"a row group has {len(group.chunks)} chunks for {len(leaves)} columns")
    for chunk, leaf in zip(group.chunks, leaves, strict=True):
        if chunk.physical != leaf.physical:
            raise Damaged(f"a chunk of column {'.'.join(leaf.path)!r} has values of another type")
        if chunk.start < 0 or chunk.compressed < 0 or chunk.start + chunk.compressed > size:
            raise Damaged(f"a chunk of column {'.'.join(leaf.path)!r} is beyond the end of the file")


def _leaves(elements: Sequence[Struct]) -> tuple[Leaf, ...]:
    """The leaves of the tree of columns, which is written depth first, each element with the number of its children."""
    leaves: list[Leaf] = []
    above: list[tuple[str, int, int, bool]] = []
    """The elements around the next one: children to come, lists around them, and whether one of them may be absent."""
    for element in elements:
        name, children = _name(element), element.get(5, 0)
        while above and above[-1][1] == 0:
            above.pop()
        repeats = (above[-1][2] if above else 0) + (element.get(3) == _REPEATED)
        has_levels = bool(above) and (above[-1][3] or element.get(3, _REQUIRED) != _REQUIRED)
        if children < 0 or (leaves and not above):
            raise Damaged("its columns do not form a tree")
        if above:
            above[-1] = above[-1][0], above[-1][1] - 1, *above[-1][2:]
        if children or not above:
            above.append((name, children, repeats, has_levels))
        else:
            path = (*(part for part, *_ in above[1:]), name)
            leaves.append(_leaf(path, element, repeats, has_levels=has_levels))
    if any(left for _, left, *_ in above):
        raise Damaged("its columns do not form a tree")
    return tuple(leaves)


def _leaf(path: tuple[str, ...], element: Struct, repeats: int, *, has_levels: bool) -> Leaf:
    logical, converted, physical = element.get(10, {}).get(8, {}).get(2, {}), element.get(6, -1), _integer(element, 1)
    unit = next((_UNITS[number] for number in logical), None) or _CONVERTED_UNITS.get(converted)
    old_bounds = physical in (_INT32, _INT64) and converted not in _UNSIGNED
    width = max(element.get(2, 0), 0) if physical == FIXED else _BOUND_BYTES.get(physical, 0)
    return Leaf(path, physical, unit, old_bounds, width, repeats, has_levels)


def _name(element: Struct) -> str:
    try:
        return bytes(element.get(4, b"")).decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"the name of a column is not UTF-8: {error}") from error


def _group(group: Struct) -> RowGroup:
    rows = _integer(group, 3)
    if rows < 0:
        raise Damaged(f"a row group has {rows} rows")
    return RowGroup(rows, _integer(group, 2), tuple(group.get(1, ())))


def _chunk(chunk: Struct) -> Chunk:
    column = chunk.get(3, {})
    dictionary, start, statistics = column.get(11, 0), _integer(column, 9), column.get(12, {})
    return Chunk(
        physical=_integer(column, 1),
        codec=_integer(column, 4),
        values=_integer(column, 5),
        # Some writers say 0 where there is no dictionary; where there is one it comes first.
        start=dictionary if 0 < dictionary < start else start,
        compressed=_integer(column, 7),
        uncompressed=_integer(column, 6),
        has_dictionary=dictionary > 0,
        is_coded=dictionary > 0 and _is_coded(column),
        nulls=statistics.get(3),
        bounds=_pair(statistics.get(6), statistics.get(5)),
        old_bounds=_pair(statistics.get(2), statistics.get(1)),
    )


def _is_coded(column: Struct) -> bool:
    """True where the footer says that all pages of values are coded by a dictionary. Old writers count no pages. They
    list all encodings, among them that of the dictionary's own page, which may be that of values, too.
    """
    counted = [page.get(2) for page in column.get(13, ()) if page.get(1) in _VALUE_PAGES]
    encodings = set(counted or column.get(2, ()))
    return bool(encodings & DICTIONARY_ENCODINGS) and encodings <= DICTIONARY_ENCODINGS | (
        frozenset() if counted else _LEVEL_ENCODINGS
    )


def _pair(low: bytes | None, high: bytes | None) -> _Bounds | None:
    return None if low is None or high is None else (low, high)


def _integer(struct: Struct, number: int) -> int:
    value = struct.get(number)
    if not isinstance(value, int):
        raise Damaged("a number is missing in its metadata")
    return value


def whole_number(bound: bytes, leaf: Leaf, type_: pa.DataType) -> int | None:
    """A bound of a column of whole numbers, days or ticks; None where it is not stored as such."""
    if leaf.physical not in (_INT32, _INT64):
        return None
    return int.from_bytes(bound, "little", signed=not kinds.is_unsigned_integer(type_))


def comparable(bound: bytes, leaf: Leaf, type_: pa.DataType) -> int | str | Decimal | None:
    """A bound of a column of this type: days of a date, microseconds of a timestamp. None where the bound proves
    nothing: bounds of floats leave out NaN.
    """
    if kinds.is_integer(type_) or kinds.is_date(type_):
        return whole_number(bound, leaf, type_)
    if kinds.is_timestamp(type_):
        number, factor = whole_number(bound, leaf, type_), _MICROSECONDS.get(leaf.unit or "")
        return None if number is None or factor is None else number * factor
    if kinds.is_decimal(type_):
        number = whole_number(bound, leaf, type_)
        return Decimal(f"{int.from_bytes(bound, 'big', signed=True) if number is None else number}e{-type_.scale}")
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return bound.decode()
    return None


_EMPTY: Final = struct_of({})
_UNIT: Final = struct_of({1: _EMPTY, 2: _EMPTY, 3: _EMPTY})
_LOGICAL: Final = struct_of({8: struct_of({2: _UNIT})})
_ELEMENT: Final = struct_of({1: INTEGER, 2: INTEGER, 3: INTEGER, 4: BINARY, 5: INTEGER, 6: INTEGER, 10: _LOGICAL})
_STATISTICS: Final = struct_of({1: BINARY, 2: BINARY, 3: INTEGER, 5: BINARY, 6: BINARY})
_COLUMN: Final = struct_of(
    {1: INTEGER, 2: list_of(INTEGER), 4: INTEGER, 5: INTEGER, 6: INTEGER, 7: INTEGER, 9: INTEGER, 11: INTEGER}
    | {12: _STATISTICS, 13: list_of(struct_of({1: INTEGER, 2: INTEGER}))}
)
_GROUP: Final = struct_of({1: list_of(struct_of({3: _COLUMN}, _chunk)), 2: INTEGER, 3: INTEGER}, _group)
_FILE: Final[Shape] = {2: list_of(_ELEMENT), 3: INTEGER, 4: list_of(_GROUP), 7: LENGTH}
