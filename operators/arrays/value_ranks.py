"""The order of long values that begin alike: each value's rank among those that begin with the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...proto.arrow.spill_buffer import SpillBuffer

_Numbers: TypeAlias = npt.NDArray[np.int64]
_NONE: Final[_Numbers] = np.zeros(0, np.int64)

_FIRST_BYTES: Final = 8 << 10
_MOST_BYTES: Final = 1 << 20
"""Values are compared in parts: a few bytes of each at first, then more and more."""
_LEAST_BYTES: Final = 32
_BYTES_AT_ONCE: Final = 4 << 20
"""The bytes of all parts that are read at once, unless so many values begin alike that each part has the least."""

_ROWS_AT_ONCE: Final = 1 << 15
_ROWS_OF_A_PASS: Final = 1 << 18
"""Values that wait to be ranked are put together by so many, and looked through by so many."""
_COLUMNS: Final = ("beginning", "offset", "length")

Read: TypeAlias = Callable[[_Numbers, _Numbers], pa.Array]
"""Reads bytes: so many from each offset on."""


class _Alike(NamedTuple):
    """Values whose first `start` bytes are those of the others in their group: their positions among all values, and
    the groups' numbers, both ascending. The next part has up to `step` bytes.
    """

    at: _Numbers
    groups: _Numbers
    start: int
    step: int


class ValueRanks:
    """The ranks of values that are at different offsets where they are different. `add` takes the values, `of` gives
    the ranks. No value is added after the first `of`. Values wait in `waiting`, in memory or on disk, until they are
    ranked. Then those alone that others begin like are in memory.
    """

    def __init__(self, read: Read, check: Callable[[], None], waiting: SpillBuffer) -> None:
        self._read = read
        self._check = check
        self._waiting = waiting
        self._parts: list[tuple[_Numbers, _Numbers, _Numbers]] = []
        self._rows = 0
        self._ranked: tuple[_Numbers, _Numbers] | None = None

    def add(self, beginnings: _Numbers, offsets: _Numbers, lengths: _Numbers) -> None:
        """Add values, by hashes of their beginnings. A value may be added again."""
        self._parts.append((beginnings, offsets, lengths))
        self._rows += len(offsets)
        if self._rows >= _ROWS_AT_ONCE:
            self._wait()

    def of(self, offsets: _Numbers) -> _Numbers:
        """The rank of each value: 0 for the least one of those that begin alike."""
        if self._ranked is None:
            self._ranked = self._ranks()
        ranked, ranks = self._ranked
        if not len(ranked):
            return np.zeros(len(offsets), np.int64)
        at = np.minimum(np.searchsorted(ranked, offsets), len(ranked) - 1)
        return np.where(ranked[at] == offsets, ranks[at], 0)

    def close(self) -> None:
        self._waiting.close()

    def _wait(self) -> None:
        """Put the latest values behind those that wait."""
        if self._rows:
            columns = [pa.array(np.concatenate(column)) for column in zip(*self._parts, strict=True)]
            self._parts, self._rows = [], 0
            self._waiting.add(pa.record_batch(columns, _COLUMNS))

    def _ranks(self) -> tuple[_Numbers, _Numbers]:
        """The values, in order of their offsets, that others begin like, and their ranks."""
        self._wait()
        self._waiting.seal()
        passes = -(-self._waiting.rows // _ROWS_OF_A_PASS)
        alike = [self._shared_in(number, passes) for number in range(passes)]
        self._waiting.close()
        offsets, lengths, sizes = (_joined(column) for column in zip(*alike, strict=True)) if alike else [_NONE] * 3
        groups = np.repeat(np.arange(len(sizes)), sizes)
        self._sort(offsets, lengths, groups)
        ranks = np.arange(len(groups)) - np.searchsorted(groups, groups)
        by_offset = np.argsort(offsets)
        return offsets[by_offset], ranks[by_offset]

    def _shared_in(self, number: int, passes: int) -> tuple[_Numbers, _Numbers, _Numbers]:
        """The offsets and lengths of the values of a pass that others begin like, group by group, and the groups'
        sizes. Values that begin alike are of the same pass.
        """
        parts = []
        for batch in self._waiting.batches():
            self._check()
            columns = [column.to_numpy() for column in batch.columns]
            mine = columns[0] % passes == number
            parts.append([column[mine] for column in columns])
        beginnings, offsets, lengths = map(_joined, zip(*parts, strict=True))
        offsets, firsts = np.unique(offsets, return_index=True)
        rows, groups = _shared(beginnings[firsts])
        sizes = np.bincount(groups)
        return offsets[rows], lengths[firsts][rows], sizes[sizes > 0]

    def _sort(self, offsets: _Numbers, lengths: _Numbers, groups: _Numbers) -> None:
        """Put the values of each group in order."""
        stack = [_Alike(np.arange(len(groups)), groups, 0, _FIRST_BYTES)] if len(groups) else []
        while stack:
            for alike in _parts(stack.pop()):
                self._check()
                at, start = alike.at, alike.start
                count = max(_LEAST_BYTES, min(alike.step, _BYTES_AT_ONCE // len(at)))
                rest = np.clip(lengths[at] - start, 0, count)
                longer = np.flatnonzero(rest)
                if not len(longer):
                    continue
                words = np.zeros(len(at), np.int64)
                parts = self._read(offsets[at[longer]] + start, rest[longer])
                words[longer] = pc.rank(parts, tiebreaker="dense").to_numpy(zero_copy_only=False)
                order = np.lexsort((words, alike.groups))
                offsets[at], lengths[at] = offsets[at[order]], lengths[at[order]]
                again, again_groups = _repeated(alike.groups[order], words[order])
                if len(again):
                    stack.append(_Alike(at[again], again_groups, start + count, min(2 * alike.step, _MOST_BYTES)))


def _joined(arrays: Sequence[_Numbers]) -> _Numbers:
    return np.concatenate(arrays)


def _shared(beginnings: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The rows whose beginning other rows have, too, in order of their beginnings, and the beginnings' numbers."""
    order = np.argsort(beginnings, kind="stable")
    at, groups = _repeated(beginnings[order], np.zeros(len(order), np.int64))
    return order[at], groups


def _repeated(groups: _Numbers, words: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The positions of sorted pairs that occur more than once, and a number for each such pair, ascending."""
    is_new = np.ones(len(groups), np.bool_)
    is_new[1:] = (groups[1:] != groups[:-1]) | (words[1:] != words[:-1])
    numbers = np.cumsum(is_new) - 1
    at = np.flatnonzero(np.bincount(numbers, minlength=1)[numbers] > 1)
    return at, numbers[at]


def _parts(alike: _Alike) -> Iterator[_Alike]:
    """Whole groups, as many as are read at once."""
    bounds = np.append(np.flatnonzero(np.diff(alike.groups)) + 1, len(alike.at))
    most = _BYTES_AT_ONCE // alike.step
    first = 0
    while first < len(alike.at):
        least, after = np.searchsorted(bounds, [first, first + most], side="right").tolist()
        last = int(bounds[max(least, after - 1)])
        yield _Alike(alike.at[first:last], alike.groups[first:last], alike.start, alike.step)
        first = last
