"""Sort orders over Arrow columns: compares, checks and searches rows by their keys, vectorised.

A key column becomes int64 words whose order is the column's order. Floats become their bits (NaN above numbers, -0.0 as
0.0), unsigned numbers and decimals get their sign moved, and all words are complemented where the order descends. Words
mean the same in every batch, so the words of one batch need no look at another. The words of texts and binaries are the
exception: they are computed for the rows that are compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from .casts import plain
from .layout import Flags, Words, flags, stored
from .texts import Texts

Key: TypeAlias = tuple[Any, ...]

_SIGN: Final = np.int64(-(2**63))
_MAGNITUDE: Final = np.int64(2**63 - 1)
_ONE_WORD_DIGITS: Final = 18
_FIRST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of rows by the column at position `column`. The position of nulls does not depend on the direction."""

    column: int
    descending: bool = False
    nulls_first: bool = False


def obstacle(type_: pa.DataType) -> str | None:
    """The reason why a column of this type cannot be a sort key; None where it can."""
    type_ = plain(type_)
    if _is_bytes(type_) or kinds.is_null(type_) or _reader(type_) is not None:
        return None
    return f"values of type {type_} have no order"


class Ordering:
    """The order of one relation's rows. `obstacle` is None for the column of each of `orders`."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self.orders = tuple(orders)

    def keys(self, batch: pa.RecordBatch) -> SortedKeys:
        return SortedKeys([_column(batch.column(order.column), order) for order in self.orders], batch.num_rows)


class SortedKeys:
    """The keys of one batch. `lower` and `upper` rely on `first_break` being None."""

    def __init__(self, columns: Sequence[KeyColumn], length: int) -> None:
        self.columns = tuple(columns)
        self.length = length
        self.code = _single_code(self.columns)
        """The whole key as one word, where a single word suffices; else None."""
        self.distinct = False
        """True where no key occurs twice. `first_break` finds this out."""

    def at(self, row: int) -> Key:
        """The key of a row, as a value that compares as the rows do."""
        if self.code is not None:
            return (1, int(self.code[row]))
        return tuple(part for column in self.columns for part in column.at(row))

    def lower(self, key: Key, start: int, stop: int) -> int:
        """The first row, from `start` to `stop`, that does not come before `key`."""
        if self.code is not None and key[0] == 1:
            return start + int(np.searchsorted(self.code[start:stop], key[1], side="left"))
        return bisect_left(range(stop), key, start, stop, key=self.at)

    def upper(self, key: Key, start: int, stop: int) -> int:
        """The first row, from `start` to `stop`, that comes after `key`."""
        if self.code is not None and key[0] == 1:
            return start + int(np.searchsorted(self.code[start:stop], key[1], side="right"))
        return bisect_right(range(stop), key, start, stop, key=self.at)

    def first_break(self) -> int | None:
        """The first row that comes before the row ahead of it; None where the rows are sorted."""
        if self.length < 2:
            self.distinct = True
            return None
        if self.code is not None:
            return self._first_break_of(self.code)
        undecided = np.ones(self.length - 1, dtype=np.bool_)
        broken = np.zeros(self.length - 1, dtype=np.bool_)
        for column in self.columns:
            for after, equal in column.neighbours():
                broken |= undecided & after
                undecided &= equal
                if not undecided.any():
                    break
        if broken.any():
            return int(np.argmax(broken)) + 1
        self.distinct = not undecided.any()
        return None

    def _first_break_of(self, code: Words) -> int | None:
        """`first_break` by a single word. It takes one pass where the first rows already show that a key occurs
        twice.
        """
        first = code[:_FIRST]
        if bool((first[1:] > first[:-1]).all()) and bool((code[1:] > code[:-1]).all()):
            self.distinct = True
            return None
        broken = code[1:] < code[:-1]
        return int(np.argmax(broken)) + 1 if broken.any() else None

    def nulls(self, columns: Sequence[int], start: int, stop: int) -> Flags | None:
        """True for each row with a null in one of these key columns; None where no row has one."""
        any_null: Flags | None = None
        for i in columns:
            nulls = self.columns[i].nulls
            if nulls is not None:
                any_null = nulls[start:stop] if any_null is None else any_null | nulls[start:stop]
        return any_null


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """One key column of a batch: `words`, most significant first, or `texts`. Words of nulls are 0."""

    order: Order
    nulls: Flags | None
    words: tuple[Words, ...]
    texts: Texts | None

    def at(self, row: int) -> Key:
        if self.nulls is not None and self.nulls[row]:
            return (0 if self.order.nulls_first else 2,)
        if self.texts is not None:
            value = self.texts.array[row].as_py()
            return (1, Descending(value) if self.order.descending else value)
        return (1, *(int(word[row]) for word in self.words))

    def ranks(self) -> Words | None:
        """The word, ahead of the others, that puts nulls first or last; None where there is no null."""
        if self.nulls is None:
            return None
        return np.where(self.nulls, 0 if self.order.nulls_first else 2, 1).astype(np.int64)

    def neighbours(self) -> Iterator[tuple[Flags, Flags]]:
        """For each word, flags for rows that come after their successor, and flags for rows that equal their
        successor.
        """
        ranks = self.ranks()
        for word in self.words if ranks is None else (ranks, *self.words):
            yield word[:-1] > word[1:], word[:-1] == word[1:]
        if self.texts is not None:
            yield from self.texts.neighbours(descending=self.order.descending)


@total_ordering
class Descending:
    """A value whose order is reversed."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.value == other.value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _single_code(columns: Sequence[KeyColumn]) -> Words | None:
    if len(columns) == 1 and len(columns[0].words) == 1 and columns[0].nulls is None:
        return columns[0].words[0]
    return None


# --- from Arrow to words ------------------------------------------------------------------------------------------


def _column(array: pa.Array, order: Order) -> KeyColumn:
    array = stored(array)
    nulls = flags(array.is_null()) if array.null_count else None
    if _is_bytes(array.type):
        return KeyColumn(order, nulls, (), Texts(array.cast(pa.large_binary())))
    if kinds.is_null(array.type):
        return KeyColumn(order, np.ones(len(array), dtype=np.bool_), (), None)
    read = _reader(array.type)
    assert read is not None, f"{array.type} cannot be a key"
    words = read(array)
    if order.descending:
        words = tuple(~word for word in words)
    if nulls is not None:
        words = tuple(np.where(nulls, np.int64(0), word) for word in words)
    return KeyColumn(order, nulls, words, None)


def _is_bytes(type_: pa.DataType) -> bool:
    return any(
        test(type_)
        for test in (
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_fixed_size_binary,
        )
    )


Reader: TypeAlias = Callable[[pa.Array], tuple[Words, ...]]


def _reader(type_: pa.DataType) -> Reader | None:
    if kinds.is_boolean(type_):
        return lambda array: _integers(array.cast(pa.uint8()), "u1")
    if kinds.is_float32(type_) or kinds.is_float64(type_):
        return _floats
    if kinds.is_unsigned_integer(type_):
        return _unsigned if type_.bit_width == 64 else lambda array: _integers(array, f"u{type_.bit_width // 8}")
    if kinds.is_decimal128(type_):
        return _wide
    if kinds.is_signed_integer(type_) or kinds.is_decimal32(type_) or kinds.is_decimal64(type_) or _is_time(type_):
        return lambda array: _integers(array, f"i{type_.bit_width // 8}")
    return None


def _is_time(type_: pa.DataType) -> bool:
    return bool(kinds.is_date(type_) or kinds.is_time(type_) or kinds.is_timestamp(type_) or kinds.is_duration(type_))


def _values(array: pa.Array, dtype: str) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """The array's fixed-width values, in place. The value below a null is arbitrary."""
    item_bytes = np.dtype(dtype).itemsize
    width = array.type.bit_width // 8 // item_bytes
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(array) * width, offset=array.offset * width * item_bytes)


def _integers(array: pa.Array, dtype: str) -> tuple[Words, ...]:
    return (_values(array, dtype).astype(np.int64, copy=False),)


def _unsigned(array: pa.Array) -> tuple[Words, ...]:
    return (_values(array, "i8") ^ _SIGN,)


def _floats(array: pa.Array) -> tuple[Words, ...]:
    values = _values(array, f"f{array.type.bit_width // 8}").astype(np.float64)
    values += 0.0  # makes -0.0 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    return (bits ^ ((bits >> 63) & _MAGNITUDE),)


def _wide(array: pa.Array) -> tuple[Words, ...]:
    halves = _values(array, "i8").reshape(-1, 2)
    if array.type.precision <= _ONE_WORD_DIGITS:
        return (np.ascontiguousarray(halves[:, 0]),)
    return np.ascontiguousarray(halves[:, 1]), halves[:, 0] ^ _SIGN
