"""Arrangement: rows kept by a key, as immutable sorted runs that are probed with binary search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..hashing import Hashes, one_to_one
from .change import Change, ManyRounds, Numbers
from .columns import Column, Index
from .consolidate import Entries, consolidated, entries, merged
from .directory import Directory
from .laid import Laid
from .rows import Rows

_NEWEST: Final = 512
"""The newest run is rebuilt with what comes in until it has this many rows."""
_FACTOR: Final = 8
"""A run is merged with the next older one when that is less than so many times as long, so that few are probed ..."""

_FEW: Final = 256
_RECENT: Final = 2_048
_PARTS: Final = 4
"""As few rows are kept as they came until there are so many of them, or what is asked for lies in more parts."""

PAIRS: Final = 1 << 18
"""Pairs of a key and a row that are made at a time, but for those of a single key."""

_FIRST: Final = np.zeros(1, dtype=np.int64)

_LARGE: Final = 4_096
_FACTOR_OF_LARGE: Final = 2
"""... and a large one only with one less than twice as long, as moving so many rows costs more than probing."""


Run: TypeAlias = Entries | Change
"""Rows that are kept together, with their weights and rounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Kept entries beside which of the rows that were asked for has their key. An entry of the past may be undone by
    another one here: what is wanted is the sum.
    """

    asked: Index
    rows: Rows
    weights: Numbers
    rounds: ManyRounds

    def __len__(self) -> int:
        return len(self.asked)

    def take(self, which: Index) -> Found:
        rounds = tuple(number[which] for number in self.rounds)
        return Found(self.asked[which], self.rows.take(which), self.weights[which], rounds)


class Arrangement:
    """Rows of `types`, kept by their columns `key`, each with a weight (or with `width` numbers that are summed as
    weights are) and `depth` rounds. Nulls in a key are equal to each other.

    `touched` counts the rows that came in and that were found; what merging runs moves is not in it. `filled` says that
    most rows are expected before the first one is asked for.
    """

    def __init__(
        self, types: Sequence[pa.DataType], key: Sequence[int], *, depth: int, width: int = 1, filled: bool = False
    ) -> None:
        self._types = tuple(types)
        self._key = tuple(key)
        self._whole = self._key == tuple(range(len(self._types)))
        self._one_word = len(self._key) == 1 and one_to_one(self._types[self._key[0]])
        self._directory = Directory(self._key[0]) if self._one_word else None
        """Of the oldest run, which is the longest."""
        self._laid = Laid(self._key[0]) if self._one_word and filled and width == 1 else None
        """What came in at first, if it is that simple."""
        self._depth = depth
        self._width = width
        self._runs: list[Entries] = []
        self._recent: list[Entries] = []
        self._recent_rows = 0
        self._recent_keys: dict[int, list[tuple[int, int]]] = {}
        """By the hash of a key which of the recent parts, and of their entries, have it."""
        self._runs_bytes: int | None = 0
        """Of the runs; None where they have changed since they were measured."""
        self._measured = 0
        self._measured_bytes = 0
        self.touched = 0
        none = np.empty(0, dtype=np.int64)
        weights = none if width == 1 else np.empty((0, width), dtype=np.int64)
        self._nothing = Found(none, Rows.empty(self._types), weights, (none,) * depth)

    @property
    def rows(self) -> int:
        """Entries in all runs: at least as many as there are different rows."""
        return sum(len(run) for run in self._runs) + self._recent_rows + (0 if self._laid is None else self._laid.rows)

    @property
    def nbytes(self) -> int:
        new = self._recent[self._measured :]
        self._measured += len(new)
        self._measured_bytes += sum(run.nbytes for run in new)
        directory = 0 if self._directory is None else self._directory.nbytes
        laid = 0 if self._laid is None else self._laid.nbytes
        if self._runs_bytes is None:
            self._runs_bytes = sum(run.nbytes for run in self._runs)
        return self._runs_bytes + self._measured_bytes + directory + laid

    @property
    def runs(self) -> tuple[Entries, ...]:
        """Oldest first."""
        self._unlay()
        self._gather()
        return tuple(self._runs)

    def insert(self, change: Change, keys: Rows | None = None) -> None:
        """Add rows; their `keys` may be given where they are at hand."""
        if self._laid is not None and not self._runs and not self._recent and self._laid.add(change):
            self.touched += len(change)
            return
        self.insert_numbers(change.rows, change.weights, change.rounds, None if keys is None else keys.hashes())

    def insert_numbers(
        self, rows: Rows, weights: Numbers, rounds: ManyRounds, key_hashes: Hashes | None = None
    ) -> None:
        """`insert` for rows with as many numbers as the arrangement's width; `key_hashes` may be given."""
        if not len(rows):
            return
        self.touched += len(rows)
        self.insert_entries(self._entries(rows, weights, rounds, key_hashes))

    def insert_entries(self, run: Entries) -> None:
        """Add entries that are consolidated and in order, none of them 0."""
        if len(run) > _FEW:
            self._insert_run(run)
        elif len(run):
            part, keys = len(self._recent), self._recent_keys
            for at, key in enumerate(run.key_hashes.tolist()):
                if key in keys:
                    keys[key].append((part, at))
                else:
                    keys[key] = [(part, at)]
            self._recent.append(run)
            self._recent_rows += len(run)
            if self._recent_rows >= _RECENT:
                self._gather()

    def _gather(self) -> None:
        """Make a run of the entries that were kept as they came."""
        if self._recent:
            few = self._recent
            self._forget_recent()
            self._insert_run(few[0] if len(few) == 1 else consolidated(Entries.concat(few)))

    def _insert_run(self, run: Entries) -> None:
        self._runs_bytes = None
        while self._runs and self._to_merge(len(self._runs[-1]), len(run)):
            run = merged(self._runs.pop(), run)
        if not self._runs and self._laid is not None and self._laid.rows and self._to_merge(self._laid.rows, len(run)):
            self._unlay()
            run = merged(self._runs.pop(), run)
        if len(run):
            self._runs.append(self._arranged(run))

    def _unlay(self) -> None:
        """Make a run of what was laid, the oldest one."""
        laid = None if self._laid is None else self._laid.take()
        if laid is not None:
            later, self._runs, self._runs_bytes = self._runs, [], None
            for run in (self._entries(laid.rows, laid.weights, laid.rounds), *later):
                self._insert_run(run)

    def _entries(self, rows: Rows, weights: Numbers, rounds: ManyRounds, key_hashes: Hashes | None = None) -> Entries:
        if key_hashes is None:
            key_hashes = rows.select(self._key).hashes()
        return entries(rows, key_hashes, key_hashes if self._whole else rows.hashes(), weights, rounds)

    def find(self, keys: Rows, hashes: Hashes | None = None, *, rows: bool = True) -> Found:
        """All entries whose key is one of `keys`, run by run; without their `rows`, which then have no columns, if only
        the rest is wanted.
        """
        parts = [self._entries_at(run, asked, at, rows=rows) for run, asked, at in self.matches(keys, hashes)]
        if not parts:
            return self._nothing
        if len(parts) == 1:
            return parts[0]
        return Found(
            np.concatenate([part.asked for part in parts]),
            Rows.concat([part.rows for part in parts]),
            np.concatenate([part.weights for part in parts]),
            tuple(np.concatenate(numbers) for numbers in zip(*(part.rounds for part in parts), strict=True)),
        )

    def matches(self, keys: Rows, hashes: Hashes | None = None) -> Iterator[tuple[Run, Index, Index]]:
        """For each run that has any: which of `keys` has which of its entries, in pairs."""
        if self._laid is not None and self._laid.rows and len(keys):
            yield from self._laid_matches(self._laid, keys.columns[0])
        if self._recent:
            hashes = keys.hashes() if hashes is None else hashes
            yield from self._recent_matches(keys, hashes)
        if not len(keys):
            return
        if len(keys) == 1:
            yield from self._matches_of_one(keys, hashes)
            return
        for number, run in enumerate(self._runs):
            if number == 0 and self._directory is not None:
                ranges = self._directory.ranges(run, keys.columns[0])
                if ranges is not None:
                    for asked, at in _pairs(None, *ranges):
                        self.touched += len(asked)
                        yield run, asked, at
                    continue
            if hashes is None:
                hashes = keys.hashes()
            for asked, at in _searched(run.key_hashes, hashes):
                yield self._of_same_key(keys, run, asked, at)

    def _laid_matches(self, laid: Laid, keys: Column) -> Iterator[tuple[Run, Index, Index]]:
        """`matches` in what is laid, which becomes a run if it cannot tell."""
        if len(keys) == 1:
            one = laid.range(keys)
            if one is None:
                self._unlay()
            elif one[2]:
                self.touched += one[2]
                yield one[0], *_of_one(*one[1:])
            return
        many = laid.ranges(keys)
        if many is None:
            self._unlay()
            return
        run, first, counts = many
        for asked, at in _pairs(None, first, counts):
            self.touched += len(asked)
            yield run, asked, at

    def _recent_matches(self, keys: Rows, hashes: Hashes) -> Iterator[tuple[Run, Index, Index]]:
        """`matches` in what is kept as it came, which becomes a run if they are in more parts than a few."""
        if len(hashes) > _RECENT:
            self._gather()
            return
        wanted = hashes.tolist()
        if self._recent_keys.keys().isdisjoint(wanted):
            return
        found: dict[int, tuple[list[int], list[int]]] = {}
        for number, key in enumerate(wanted):
            for part, at in self._recent_keys.get(key, ()):
                asked, places = found.setdefault(part, ([], []))
                asked.append(number)
                places.append(at)
        if len(found) > _PARTS:
            self._gather()
            return
        parts = self._recent
        for part, (asked, places) in found.items():
            yield self._of_same_key(keys, parts[part], np.array(asked), np.array(places))

    def _matches_of_one(self, keys: Rows, hashes: Hashes | None) -> Iterator[tuple[Run, Index, Index]]:
        """`matches` of one key, as fast as it can be: in most rounds of many a loop there is but one."""
        for number, run in enumerate(self._runs):
            if number == 0 and self._directory is not None:
                found = self._directory.range(run, keys.columns[0])
                if found is not None:
                    first, count = found
                    if count:
                        self.touched += count
                        yield run, *_of_one(first, count)
                    continue
            if hashes is None:
                hashes = keys.hashes()
            first = run.key_hashes.searchsorted(hashes).item()
            count = run.key_hashes.searchsorted(hashes, side="right").item() - first
            if count:
                yield self._of_same_key(keys, run, *_of_one(first, count))

    def _of_same_key(self, keys: Rows, run: Entries, asked: Index, at: Index) -> tuple[Entries, Index, Index]:
        """Those of the pairs, which have one hash each, that have one key."""
        theirs = run.rows.select(self._key)
        if not (self._one_word and keys.columns[0].nulls() is None and theirs.columns[0].nulls() is None):
            same = keys.same(asked, theirs, at)
            if np.count_nonzero(same) < len(same):
                asked, at = asked[same], at[same]
        self.touched += len(at)
        return run, asked, at

    def contents(self) -> Entries:
        """Everything, consolidated; the runs become one."""
        self._unlay()
        self._gather()
        self._runs_bytes = None
        while len(self._runs) > 1:
            newest = self._runs.pop()
            self._runs[-1] = merged(self._runs[-1], newest)
        if self._runs and not len(self._runs[0]):
            self._runs = []
        if self._runs:
            return self._runs[0]
        nothing = self._nothing
        none = np.empty(0, dtype=np.uint64)
        return Entries(none, none, nothing.rows, nothing.weights, nothing.rounds)

    def clear(self) -> None:
        self._runs, self._runs_bytes = [], 0
        self._forget_recent()
        if self._laid is not None:
            self._laid.take()
        if self._directory is not None:
            self._directory.forget()

    def _forget_recent(self) -> None:
        self._recent, self._recent_rows = [], 0
        self._recent_keys.clear()
        self._measured = self._measured_bytes = 0

    def _arranged(self, run: Entries) -> Entries:
        """The run as it is kept, in the order of its key's hashes."""
        return run

    @staticmethod
    def _to_merge(older: int, newer: int) -> bool:
        factor = _FACTOR if newer <= _LARGE else _FACTOR_OF_LARGE
        return older <= _NEWEST or (newer > _NEWEST and older < factor * newer)

    @staticmethod
    def _entries_at(run: Run, asked: Index, at: Index, *, rows: bool) -> Found:
        found = run.rows.take(at) if rows else Rows((), len(at))
        return Found(asked, found, run.weights.take(at, axis=0), tuple(number.take(at) for number in run.rounds))


def _searched(kept: Hashes, hashes: Hashes) -> Iterator[tuple[Index, Index]]:
    """Which of `hashes` are which of those that are kept, in order, in pairs."""
    first = kept.searchsorted(hashes)
    hit = kept.take(first, mode="clip") == hashes
    hits = np.count_nonzero(hit)
    if not hits:
        return
    asked = hit.nonzero()[0]
    of = hashes
    if hits < len(hashes):
        first, of = first.take(asked), hashes.take(asked)
    counts = kept.searchsorted(of, side="right")
    counts -= first
    yield from _pairs(asked, first, counts)


def _of_one(first: int, count: int) -> tuple[Index, Index]:
    """The only key with so many rows."""
    if count == 1:
        return _FIRST, np.array((first,))
    return np.zeros(count, dtype=np.int64), np.arange(first, first + count)


def _pairs(asked: Index | None, first: Index, counts: Numbers) -> Iterator[tuple[Index, Index]]:
    """Each of `asked` (of all, if that is None) with so many rows from its first on; not many more at a time than
    `PAIRS`, as they might be more than there is room for.
    """
    ends = counts.cumsum()
    total = int(ends[-1])
    if not total:
        return
    if asked is None:
        asked = np.arange(len(counts))
    cuts = [0, len(counts)]
    if total > PAIRS:
        cuts[1:1] = np.unique(ends.searchsorted(np.arange(PAIRS, total, PAIRS), side="right")).tolist()
    for start, stop in pairwise(cuts):
        if start == stop:
            continue
        some = slice(start, stop)
        before = int(ends[start - 1]) if start else 0
        found = int(ends[stop - 1]) - before
        if not found:
            continue
        if found == stop - start == np.count_nonzero(counts[some]):
            yield asked[some], first[some]
            continue
        starts = first[some] - ends[some]
        starts += counts[some]
        starts += before
        at = starts.repeat(counts[some])
        at += np.arange(found)
        yield asked[some].repeat(counts[some]), at
