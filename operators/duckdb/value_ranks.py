"""The order of long values that begin alike: each value's rank among those that begin with the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cmp_to_key
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

_Numbers: TypeAlias = npt.NDArray[np.int64]

_FIRST_BYTES: Final = 8 << 10
_MOST_BYTES: Final = 1 << 20
"""Two values are compared in parts: a few bytes of each at first, then more and more."""

Read: TypeAlias = Callable[[int, memoryview], None]
"""Reads the bytes of a value, from an offset on."""


class ValueRanks:
    """The ranks of values that are at different offsets where they are different. `add` takes the values, `of` gives
    the ranks. No value is added after the first `of`.
    """

    def __init__(self, read: Read, check: Callable[[], None]) -> None:
        self._read = read
        self._check = check
        self._parts: list[tuple[_Numbers, _Numbers, _Numbers]] = []
        self._ranked: tuple[_Numbers, _Numbers] | None = None

    def add(self, beginnings: _Numbers, offsets: _Numbers, lengths: _Numbers) -> None:
        """Add values, by hashes of their beginnings. A value may be added again."""
        self._parts.append((beginnings, offsets, lengths))

    def of(self, offsets: _Numbers) -> _Numbers:
        """The rank of each value: 0 for the least one of those that begin alike."""
        if self._ranked is None:
            self._ranked = self._ranks()
        ranked, ranks = self._ranked
        if not len(ranked):
            return np.zeros(len(offsets), np.int64)
        at = np.minimum(np.searchsorted(ranked, offsets), len(ranked) - 1)
        return np.where(ranked[at] == offsets, ranks[at], 0)

    def _ranks(self) -> tuple[_Numbers, _Numbers]:
        """The values, in order of their offsets, that others begin like, and their ranks."""
        beginnings, offsets, lengths = (
            np.concatenate(column) if column else np.zeros(0, np.int64)
            for column in (zip(*self._parts, strict=True) if self._parts else ((), (), ()))
        )
        self._parts = []
        offsets, firsts = np.unique(offsets, return_index=True)
        lengths, sizes = lengths[firsts], dict[int, int]()

        def compare(one: int, other: int) -> int:
            return self._compare(one, sizes[one], other, sizes[other])

        ranks: dict[int, int] = {}
        for rows in _alike(beginnings[firsts]):
            alike = offsets[rows].tolist()
            sizes = dict(zip(alike, lengths[rows].tolist(), strict=True))
            ranks.update((offset, rank) for rank, offset in enumerate(sorted(alike, key=cmp_to_key(compare))))
        ranked = np.array(sorted(ranks), np.int64)
        return ranked, np.array([ranks[offset] for offset in ranked.tolist()], np.int64)

    def _compare(self, one: int, size: int, other: int, other_size: int) -> int:
        """Less than 0 where the value at `one` is the lesser, more where the value at `other` is."""
        self._check()
        start, step = 0, _FIRST_BYTES
        while start < min(size, other_size):
            count = min(step, size - start, other_size - start)
            first, second = self._bytes(one + start, count), self._bytes(other + start, count)
            if first != second:
                return -1 if first < second else 1
            start, step = start + count, min(2 * step, _MOST_BYTES)
        return size - other_size

    def _bytes(self, offset: int, count: int) -> bytes:
        part = bytearray(count)
        self._read(offset, memoryview(part))
        return bytes(part)


def _alike(beginnings: _Numbers) -> Iterator[_Numbers]:
    """The rows of each beginning that several rows have."""
    order = np.argsort(beginnings, kind="stable")
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(beginnings[order])) + 1, [len(order)]))
    for group in np.flatnonzero(np.diff(bounds) > 1).tolist():
        yield order[bounds[group] : bounds[group + 1]]
