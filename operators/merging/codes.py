"""The keys of a stretch of rows of two sorted inputs as one int64 each, in the order of the keys.

Equal keys have equal codes, on both sides. A single integer key is its own code; others get codes that mean something
within the stretch alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..ordering import KeyColumn, SortedKeys, Words

_ROOM: Final = 2**62


class Stretch:
    """Rows `start` to `stop` of a batch of sorted keys."""

    __slots__ = ("keys", "start", "stop")

    def __init__(self, keys: SortedKeys, start: int, stop: int) -> None:
        self.keys = keys
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.start


def codes(one: Stretch, two: Stretch) -> tuple[Words, Words]:
    if one.keys.code is not None and two.keys.code is not None:
        return one.keys.code[one.start : one.stop], two.keys.code[two.start : two.stop]
    together = _combined(list(_words(one, two)), len(one) + len(two))
    return together[: len(one)], together[len(one) :]


def _words(one: Stretch, two: Stretch) -> Iterator[Words]:
    """Words over the rows of both, one after the other, most significant first."""
    for mine, other in zip(one.keys.columns, two.keys.columns, strict=True):
        if mine.nulls is not None or other.nulls is not None:
            yield np.concatenate([_ranks(mine, one), _ranks(other, two)])
        if mine.text is not None and other.text is not None:
            yield _text_ranks(mine, one, other, two)
        for my_word, other_word in zip(mine.words, other.words, strict=True):
            yield np.concatenate([my_word[one.start : one.stop], other_word[two.start : two.stop]])


def _ranks(column: KeyColumn, rows: Stretch) -> Words:
    ranks = column.ranks()
    return np.ones(len(rows), dtype=np.int64) if ranks is None else ranks[rows.start : rows.stop]


def _text_ranks(mine: KeyColumn, one: Stretch, other: KeyColumn, two: Stretch) -> Words:
    assert mine.text is not None
    assert other.text is not None
    texts = pa.concat_arrays([mine.text.slice(one.start, len(one)), other.text.slice(two.start, len(two))])
    ranks: Words = pc.rank(texts, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    if mine.order.descending:
        ranks = -ranks
    if texts.null_count:
        ranks[texts.is_null().to_numpy(zero_copy_only=False)] = 0
    return ranks


def _combined(words: list[Words], length: int) -> Words:
    """One word in the order of all of them."""
    code, size = np.zeros(length, dtype=np.int64), 1
    if not length:
        return code
    for word in words:
        part, span = _from_zero(word)
        if size * span > _ROOM:
            code, size = _dense(code)
        if size * span > _ROOM:
            part, span = _dense(part)
        code, size = code * np.int64(span) + part, size * span
    return code


def _from_zero(word: Words) -> tuple[Words, int]:
    low, high = int(word.min()), int(word.max())
    if high - low >= _ROOM:
        return _dense(word)
    return word - np.int64(low), high - low + 1


def _dense(word: Words) -> tuple[Words, int]:
    values, places = np.unique(word, return_inverse=True)
    return places.astype(np.int64, copy=False).reshape(-1), len(values)
