"""Encodes texts and bytes as words of eight bytes, so that NumPy compares them as numbers.

Sorted texts often share a beginning. The common beginning is found once and left out, and often a single word holds the
rest. Arrow ranks texts only where they are long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .layout import Flags, Words, flags

_Bytes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint8]]
_Unsigned: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_EACH: Final = 8
_SIGN: Final = np.uint64(1 << 63)
#: Masks that keep the first bytes of a word, by their number.
_FIRST_BYTES: Final = np.array([0, *(~0 << 8 * (_EACH - count) & 2**64 - 1 for count in range(1, 9))], dtype=np.uint64)
#: With more words than this, ranks are found faster.
_MOST_WORDS: Final = 8
#: The most bytes in which a common beginning is looked for.
_LONGEST_BEGINNING: Final = 128


class Texts:
    """The values of a column, cast to an `array` of large binary. Behind a text's end its words are zeros."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        _, offsets, data = array.buffers()
        self._data: _Bytes = np.frombuffer(data or b"", dtype=np.uint8)
        self._offsets: Words = np.zeros(1, dtype=np.int64)
        if len(array):
            self._offsets = np.frombuffer(offsets, dtype=np.int64, count=len(array) + 1, offset=array.offset * 8)
        self._nulls = flags(array.is_null()) if array.null_count else None
        self._lengths = np.diff(self._offsets)
        self.shortest = int(self._lengths.min()) if len(array) else 0
        self.longest = int(self._lengths.max()) if len(array) else 0
        self._words: dict[int, Words] = {}

    def word(self, at: int, start: int, stop: int) -> Words:
        """The eight bytes from position `at` on, of rows `start` to `stop`; 0 for a null."""
        kept = self._words.get(at)
        if kept is not None:
            return kept[start:stop]
        words = (self._read(at, start, stop) ^ _SIGN).view(np.int64)
        if self._nulls is not None:
            words[self._nulls[start:stop]] = 0
        if stop - start == len(self.array):
            self._words[at] = words
        return words

    def lengths(self, start: int, stop: int) -> Words:
        """The lengths of rows `start` to `stop`; 0 for a null."""
        lengths = self._lengths[start:stop]
        return lengths if self._nulls is None else np.where(self._nulls[start:stop], 0, lengths)

    def neighbours(self, *, descending: bool) -> Iterator[tuple[Flags, Flags]]:
        """Flags for rows that come after their successor, and flags for rows that equal it, for one word after the
        other.
        """
        if self.longest <= len(self.beginning) + _MOST_WORDS * _EACH:
            for word in text_words([TextRows(self, 0, len(self.array))], descending=descending):
                yield word[:-1] > word[1:], word[:-1] == word[1:]
            return
        one, two = self.array.slice(0, len(self.array) - 1), self.array.slice(1)
        after = pc.less(one, two) if descending else pc.greater(one, two)
        yield flags(after), flags(pc.fill_null(pc.equal(one, two), True))

    @cached_property
    def end_in_zeros(self) -> bool:
        """True where a text may differ from another one only in zeros at its end, which no word shows."""
        ends = self._offsets[1:][self._lengths > 0]
        return bool((self._data[ends - 1] == 0).any())

    @cached_property
    def beginning(self) -> bytes:
        """The common beginning of all texts, with the zeros behind their ends. Only the first part of a long
        beginning.
        """
        rows = np.arange(len(self.array)) if self._nulls is None else np.flatnonzero(~self._nulls)
        prefix = b""
        if not rows.size:
            return prefix
        while len(prefix) < min(self.longest, _LONGEST_BEGINNING):
            words = self._read(len(prefix), 0, len(self.array))
            words = words if self._nulls is None else words[rows]
            first = int(words[0])
            different = int(np.bitwise_or.reduce(words ^ words[0]))
            alike = _EACH - (different.bit_length() + 7) // 8
            prefix += first.to_bytes(_EACH, "big")[:alike]
            if alike < _EACH:
                break
        return prefix

    def _read(self, at: int, start: int, stop: int) -> _Unsigned:
        words = self._eight_bytes(at, start, stop)
        if self.shortest >= at + _EACH:
            return words
        if self.shortest == self.longest:
            words &= _FIRST_BYTES[max(self.longest - at, 0)]
        else:
            words &= _FIRST_BYTES[np.clip(self._lengths[start:stop] - at, 0, _EACH)]
        return words

    def _eight_bytes(self, at: int, start: int, stop: int) -> _Unsigned:
        """Eight bytes of each row from position `at` on. Behind a text's end they are arbitrary; behind the end of all
        data, zeros.
        """
        begins = self._offsets[start:stop]
        last = len(self._data) - _EACH
        inside = int(np.searchsorted(begins, last - at, side="right")) if last >= 0 else 0
        words = np.zeros(stop - start, dtype=np.uint64)
        if inside and self.shortest == self.longest:
            words[:inside] = _overlapping(self._data, int(begins[0]) + at, inside, self.longest)
        elif inside:
            words[:inside] = _overlapping(self._data, at, last - at + 1, 1)[begins[:inside]]
        if inside < len(words):
            from_ = max(last + 1, 0)
            rest = np.zeros(2 * _EACH, dtype=np.uint8)
            rest[: len(self._data) - from_] = self._data[from_:]
            words[inside:] = _overlapping(rest, 0, _EACH + 1, 1)[np.minimum(begins[inside:] + at - from_, _EACH)]
        return words


def _overlapping(data: _Bytes, at: int, count: int, step: int) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Words of eight bytes each, `step` bytes apart."""
    return np.ndarray((count,), ">u8", data, at, (step,))


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows `start` to `stop` of `texts`."""

    texts: Texts
    start: int
    stop: int


def text_words(parts: Sequence[TextRows], *, descending: bool) -> Iterator[Words]:
    """Words in the order of the parts' texts: the rows of one part after those of the other, the most significant word
    first. The words mean nothing beside words of other parts. All nulls have the same words.
    """
    for word in _ascending(parts):
        yield ~word if descending else word


def _ascending(parts: Sequence[TextRows]) -> Iterator[Words]:
    alike = _alike([part.texts.beginning for part in parts])
    longest = max(part.texts.longest for part in parts)
    if longest > alike + _MOST_WORDS * _EACH:
        yield _ranks(parts)
        return
    for at in range(alike, max(longest, alike + 1), _EACH):
        yield np.concatenate([part.texts.word(at, part.start, part.stop) for part in parts])
    of_one_length = all(part.texts.shortest == longest for part in parts)
    if not of_one_length and any(part.texts.end_in_zeros for part in parts):
        yield np.concatenate([part.texts.lengths(part.start, part.stop) for part in parts])


def _alike(beginnings: Sequence[bytes]) -> int:
    """The number of bytes that all `beginnings` share."""
    least, most = min(beginnings), max(beginnings)
    return next((at for at, (one, two) in enumerate(zip(least, most, strict=False)) if one != two), len(least))


def _ranks(parts: Sequence[TextRows]) -> Words:
    texts = pa.concat_arrays([part.texts.array[part.start : part.stop] for part in parts])
    ranks: Words = pc.rank(texts, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    if texts.null_count:
        ranks[flags(texts.is_null())] = 0
    return ranks
