"""Compares stretches of sorted rows, each from one batch or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from .layout import Flags, Words
from .ordering import KeyColumn, SortedKeys
from .texts import TextRows, text_words

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


def words_of(stretches: Sequence[Stretch]) -> Iterator[Words]:
    """Words over the rows of all stretches, one stretch after the other, that compare as the keys do. The first word is
    the most significant.
    """
    for columns in zip(*(stretch.keys.columns for stretch in stretches), strict=True):
        if any(column.nulls is not None for column in columns):
            yield np.concatenate([_ranks(column, rows) for column, rows in zip(columns, stretches, strict=True)])
        texts = [
            TextRows(column.texts, rows.start, rows.stop)
            for column, rows in zip(columns, stretches, strict=True)
            if column.texts is not None
        ]
        if texts:
            yield from text_words(texts, descending=columns[0].order.descending)
        for words in zip(*(column.words for column in columns), strict=True):
            yield np.concatenate([word[rows.start : rows.stop] for word, rows in zip(words, stretches, strict=True)])


def _ranks(column: KeyColumn, rows: Stretch) -> Words:
    ranks = column.ranks()
    return np.ones(len(rows), dtype=np.int64) if ranks is None else ranks[rows.start : rows.stop]


def code_of(stretches: Sequence[Stretch]) -> Words:
    """One word for each row that compares as the keys do, among these rows. A key of a single word is its own code."""
    code, size = np.zeros(sum(map(len, stretches)), dtype=np.int64), 1
    if not len(code):
        return code
    for word in words_of(stretches):
        low, high = int(word.min()), int(word.max())
        span = high - low + 1
        if size == 1:
            code, size = word, span
        elif size * span <= _ROOM:
            code, size = (code - code.min()) * np.int64(span) + (word - low), size * span
        elif span > 1:
            code, size = _refined(code, size, word)
    return code


def _refined(code: Words, size: int, word: Words) -> tuple[Words, int]:
    """Codes that also tell apart rows that differ in `word`, and a bound of the codes. Stretches are sorted, so a look
    at neighbours shows quickly where `word` adds nothing: most keys differ in their first words.
    """
    order = np.argsort(code, kind="stable")
    alike = _alike(code[order])
    if not (alike & ~_alike(word[order])).any():
        return code, size
    order = np.lexsort((word, code))
    new = np.ones(len(code), dtype=np.int64)
    new[1:] = ~(_alike(code[order]) & _alike(word[order]))
    refined = np.empty_like(new)
    refined[order] = np.cumsum(new)
    return refined, len(code)


def _alike(word: Words) -> Flags:
    """True for each row whose word is its successor's."""
    flags: Flags = word[1:] == word[:-1]
    return flags
