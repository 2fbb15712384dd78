"""Arrangement: rows kept by a key, as immutable sorted runs that are probed with binary search.

Rows of whole numbers that lie close enough together are packed into a word each. All other rows are in the order of
their keys' hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ...arrays.hashing import Hashes, one_to_one
from ...arrays.ordering import Order
from ...core.interrupts import beside
from ...core.room import has_room
from ..values.change import Change, ManyRounds, Numbers, Rounds
from ..values.consolidate import (
    Arrange,
    Entries,
    consolidate,
    consolidated,
    entries,
    is_consolidated,
    timed_hashes,
    to_merge,
)
from ..values.merged_runs import Merge, merged
from ..values.portions import TOGETHER
from ..values.rows import Rows
from ..values.scattered_column import has_wide
from ..values.value_columns import Index, Mask
from .chosen_entries import ChosenEntries
from .history import counts_at
from .matching_entries import Held, History, MatchingEntries
from .packed_layout import Form
from .packed_runs import PackedRuns
from .packed_words import PackedRun
from .pairs import of_one, pairs
from .present import Present
from .recent_entries import AT_ONCE, RECENT_ROWS, RecentEntries

_FEW: Final = 256
_PARTS: Final = 4
"""Few rows are kept as they came, until there are so many parts of them, or a look-up finds its rows in more parts."""
_SOME: Final = 64
"""For a look-up of more keys than this, rows that are kept as they came and could be packed are packed first."""
_LONG: Final = 4_096
_RUNS: Final = 256
"""A run is long if it has so many entries, and one part in so many of all entries."""

Run: TypeAlias = Entries | PackedRun
"""A run: rows that are kept together, with their weights and rounds."""


class Arrangement:
    """An arrangement of rows of `types`, kept by their columns `key`, each with a weight (or with `width` numbers that
    are summed as weights are) and `depth` rounds. Nulls in a key are equal to each other. Packed rows of one key lie in
    `orders`, ties broken by all columns; nothing is packed unless the arrangement `packs`.

    `touched` counts the rows that came in and that were found, without the rows that merges of runs move.
    """

    def __init__(
        self,
        types: Sequence[pa.DataType],
        key: Sequence[int],
        *,
        depth: int,
        width: int = 1,
        orders: Sequence[Order] = (),
        packs: bool = True,
    ) -> None:
        self._types = tuple(types)
        self._key = tuple(key)
        self._whole = self._key == tuple(range(len(self._types)))
        self._one_word = len(self._key) == 1 and one_to_one(self._types[self._key[0]])
        form = Form.of(self._types, self._key, orders, depth) if packs else None
        self._packed = None if form is None else PackedRuns(form, width)
        self._depth = depth
        self._width = width
        self._runs: list[Entries] = []
        """The runs that are not packed."""
        self._recent = RecentEntries()
        self._runs_bytes: int | None = 0
        """The bytes of the runs; None where they have changed since they were measured."""
        self.looked_at = 0
        """The touched rows that are not packed."""
        none = np.empty(0, dtype=np.int64)
        weights = none if width == 1 else np.empty((0, width), dtype=np.int64)
        self._nothing = MatchingEntries(none, Rows.empty(self._types), weights, (none,) * depth)

    @property
    def touched(self) -> int:
        return self.looked_at + (0 if self._packed is None else self._packed.touched)

    @property
    def rows(self) -> int:
        """The entries in all runs: at least as many as there are different rows."""
        packed = 0 if self._packed is None else self._packed.rows
        return packed + sum(len(run) for run in self._runs) + self._recent.rows

    @property
    def nbytes(self) -> int:
        packed = 0 if self._packed is None else self._packed.nbytes
        if self._runs_bytes is None:
            self._runs_bytes = sum(run.nbytes for run in self._runs)
        return self._runs_bytes + self._recent.nbytes + packed

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs: packed ones first, oldest first. Rows that are kept as they came become a part of them."""
        self._gather()
        return self.settled_runs

    @property
    def settled_runs(self) -> tuple[Run, ...]:
        """`runs` without the rows that are kept as they came, which stay so."""
        return (*(() if self._packed is None else self._packed.runs), *self._runs)

    def insert(self, change: Change, keys: Rows | None = None) -> None:
        """Add rows; their `keys` may be given where they are at hand."""
        self.insert_numbers(change.rows, change.weights, change.rounds, keys)

    def insert_numbers(self, rows: Rows, weights: Numbers, rounds: ManyRounds, keys: Rows | None = None) -> None:
        """`insert` for rows with as many numbers as the arrangement's width."""
        if not len(rows):
            return
        self.looked_at += len(rows)
        if len(rows) > _FEW and self._packed is not None:
            others = self._packed.add(rows, weights, rounds)
            if others is None:
                return
            if len(others) < len(rows):
                rows, weights, rounds = rows.take(others), weights.take(others, axis=0), _taken(rounds, others)
                keys = None
        self._insert_hashed(rows, weights, rounds, keys)

    def insert_saved(self, rows: Rows, weights: Numbers, rounds: ManyRounds) -> None:
        """`insert_numbers` for all entries of what was a run of such an arrangement. If they are in the order of one
        and cannot be packed, they stay this run: nothing is moved.
        """
        if self._packed is not None and self._packed.packs(rows, rounds):
            run = None
        else:
            run = self._as_run(rows, weights, rounds)
        if run is None:
            self.insert_numbers(rows, weights.astype(np.int64, copy=False), rounds)
        else:
            self.looked_at += len(run)
            self.insert_run(run)

    def _as_run(self, rows: Rows, weights: Numbers, rounds: ManyRounds) -> Entries | None:
        """The entries as a run; None where they are not sure to be in the order of one."""
        if self._arrange is not None:
            return None
        key_hashes, row_hashes = self._hashes(rows)
        run = Entries(key_hashes, timed_hashes(row_hashes, rounds), rows, weights, rounds)
        return run if is_consolidated(run) else None

    def _hashes(self, rows: Rows, keys: Rows | None = None) -> tuple[Hashes, Hashes]:
        """The numbers that runs are in the order of: of the keys, then of the rows."""
        key_hashes = (rows.select(self._key) if keys is None else keys).hashes()
        return key_hashes, key_hashes if self._whole else rows.hashes()

    def _insert_hashed(self, rows: Rows, weights: Numbers, rounds: ManyRounds, keys: Rows | None) -> None:
        if not len(rows):
            return
        size = rows.nbytes if len(rows) > _FEW else rows.quick_long_bytes
        if size > AT_ONCE and len(rows) > 1:  # the numbers that put rows in order take as much again as narrow rows do
            step = max(AT_ONCE * len(rows) // size, 1)
            for start in range(0, len(rows), step):
                some = slice(start, start + step)
                of_some = tuple(number[some] for number in rounds)
                self._insert_hashed(rows.part(some), weights[some], of_some, None if keys is None else keys.part(some))
            return
        key_hashes, row_hashes = self._hashes(rows, keys)
        arrange = self._arrange if len(rows) > _FEW else None
        run = entries(rows, key_hashes, row_hashes, weights, rounds, arrange)
        if len(run) > _FEW:
            handed = [run]
            del run, rows  # while runs are merged nothing else holds the run, whose rows may be long
            self._insert_run(handed.pop())
        elif len(run):
            self._recent.add(run)
            del run, rows
            if self._recent.is_full:
                self._gather()

    def takes(self, run: PackedRun) -> bool:
        """True if `insert_run` may have this run: its form is that of the arrangement."""
        return self._packed is not None and self._packed.takes(run)

    def insert_run(self, run: Run) -> None:
        """Take a run of an arrangement of the same form, as it is; packed ones come first."""
        if isinstance(run, PackedRun) and self._packed is not None:
            self._packed.take(run)
        elif isinstance(run, Entries):
            if self._packed is not None:
                self._packed.leave(run.rows)
            self._insert_run(run)

    def _gather(self) -> None:
        """Move the entries that were kept as they came to the others."""
        if not self._recent.parts:
            return
        handed = [self._of_parts(self._recent.taken())]
        if self._packed is not None:
            run = handed.pop()
            others = self._packed.add(run.rows, run.weights, run.rounds)
            if others is None:
                return
            handed.append(run.take(others))
            del run
        self._insert_run(handed.pop())

    def _insert_run(self, run: Entries) -> None:
        """Merge a run, in its order, with older ones that are not much longer. Where there is no room for that, it
        stays apart.
        """
        arrange = self._arrange
        while self._runs and self._merges(self._runs[-1], run):
            merge = self._room_for(self._runs[-1], run)
            if merge is None:
                break
            pair = [self._runs.pop(), run]
            del run
            run = merged(pair, merge, arrange)
            del merge
            self._runs_bytes = None
        if len(run):
            self._runs.append(run.narrowed() if arrange is None else run)
            self._runs_bytes = None

    def _merges(self, older: Entries, newer: Entries) -> bool:
        """Tests whether a new run is merged with the run before it."""
        return to_merge(older.size, newer.size)

    def is_long(self, run: Entries) -> bool:
        """Tests whether so much of all is in a run that it may stay apart from later ones."""
        return len(run) >= max(_LONG, sum(map(len, self._runs)) // _RUNS)

    @staticmethod
    def _room_for(older: Entries, newer: Entries) -> Merge | None:
        """The merge of two runs; None if there is no room for it."""
        taken = newer.nbytes + Merge.NUMBERS * (len(older) + len(newer))
        if not has_room(taken):
            return None
        merge = Merge.of(older, newer)
        return merge if has_room(taken + merge.nbytes) else None

    def find(self, keys: Rows, *, rows: bool = True) -> MatchingEntries:
        """All entries whose key is one of `keys`, run by run. With `rows=False` the rows of the entries have no
        columns.
        """
        return self._found(self.matches(keys), rows=rows)

    @property
    def has_wide_rows(self) -> bool:
        """True where so many rows are wide that their keys are answered in portions."""
        return self.nbytes > TOGETHER and any(has_wide(run.rows.columns, len(run)) for run in self._runs)

    def chosen(self, keys: Rows) -> ChosenEntries:
        """`find` that leaves wide rows in their runs."""
        return ChosenEntries.of(self.matches(keys), self._nothing)

    def sizes(self, keys: Rows) -> Numbers:
        """About the bytes of the entries of each of `keys`."""
        sizes = np.zeros(len(keys), dtype=np.int64)
        for run, asked, _ in self.matches(keys):
            sizes += np.bincount(asked, minlength=len(keys)) * (run.nbytes // max(len(run), 1))
        return sizes

    def held(self, keys: Rows, time: Rounds, *, rows: bool = True) -> Held:
        """The entries of different keys that hold at a time."""
        if self._packed is None or len(keys) <= _SOME:
            matches = self.find(keys, rows=rows)
            return Held(_counted(matches, time), (matches.asked, matches.rounds))
        others = self._found(self._hashed_matches(keys), rows=rows)
        now, (asked, rounds) = _counted(others, time), self._packed.later(keys, time)
        if self._packed.rows:
            sums = self._packed.sums(keys, time)
            packed = MatchingEntries(sums.asked, self._packed.rows_of(sums, None if rows else ()), sums.weights, ())
            now = MatchingEntries.concat([packed, now]) if len(now) else packed
        if len(others):
            asked = np.concatenate([asked, others.asked])
            rounds = tuple(map(np.concatenate, zip(rounds, others.rounds, strict=True)))
        return Held(now, (asked, rounds))

    def first(self, keys: Rows, time: Rounds, count: int) -> Present | None:
        """The first rows of each of different keys, in the arrangement's orders, that exist at this time: at least as
        many as make up a weight of `count`, if the key has them. None where some rows are not packed, or where all of
        the keys' rows are found as fast.
        """
        if self._packed is None or (self._depth and len(keys) <= _SOME):
            return None
        if any(True for _ in self._recent_matches(keys)) or self._runs:
            return None
        if not self._packed.rows:
            return Present(self._nothing.asked, self._nothing.rows, self._nothing.asked)
        sums = self._packed.first(keys, time, count)
        return Present(sums.asked, self._packed.rows_of(sums), sums.weights)

    def later(self, keys: Rows, time: Rounds) -> History:
        """The times of packed entries that may count at a time after this one, and the keys that they belong to."""
        nothing = self._nothing
        return (nothing.asked, nothing.rounds) if self._packed is None else self._packed.later(keys, time)

    def _found(self, matches: Iterator[tuple[Run, Index, Index]], *, rows: bool) -> MatchingEntries:
        columns = None if rows else ()
        parts = [MatchingEntries.of(asked, run.pick(at, columns)) for run, asked, at in matches]
        return MatchingEntries.concat(parts) if parts else self._nothing

    def matches(self, keys: Rows) -> Iterator[tuple[Run, Index, Index]]:
        """For each run with matches: pairs of one of `keys` and an entry that has it."""
        if not len(keys):
            return
        hashed = list(self._recent_matches(keys))
        if self._packed is not None:
            yield from self._packed.matches(keys)
        yield from hashed
        yield from self._run_matches(keys)

    def _hashed_matches(self, keys: Rows) -> Iterator[tuple[Entries, Index, Index]]:
        """`matches` in entries that are not packed. It is called before `matches` in packed entries."""
        if len(keys):
            yield from self._recent_matches(keys)
            yield from self._run_matches(keys)

    def _recent_matches(self, keys: Rows) -> Iterator[tuple[Entries, Index, Index]]:
        """`matches` in entries that are kept as they came. Entries of many keys, or in many parts, are moved to the
        others first.
        """
        if not self._recent.parts:
            return
        if len(keys) > (RECENT_ROWS if self._packed is None else _SOME):
            self._gather()
            return
        by_part = self._recent.find(keys.hashes())
        if len(by_part) > _PARTS:
            self._gather()
            return
        parts = self._recent.parts
        for part, (asked, positions) in by_part.items():
            yield self._of_same_key(keys, parts[part], np.array(asked), np.array(positions))

    def _run_matches(self, keys: Rows) -> Iterator[tuple[Entries, Index, Index]]:
        """`matches` in runs that are not packed. Without such runs the keys need no hashes."""
        if not self._runs:
            return
        if len(keys) == 1:
            yield from self._matches_of_one(keys)
            return
        for run in self._runs:
            for asked, at in _searched(run.key_hashes, keys.hashes()):
                yield self._of_same_key(keys, run, asked, at)

    def _matches_of_one(self, keys: Rows) -> Iterator[tuple[Entries, Index, Index]]:
        """`matches` of one key, as fast as possible: many loops have only one key in most rounds."""
        hashes = keys.hashes()
        for run in self._runs:
            first = run.key_hashes.searchsorted(hashes).item()
            count = run.key_hashes.searchsorted(hashes, side="right").item() - first
            if count:
                yield self._of_same_key(keys, run, *of_one(first, count))

    def _of_same_key(self, keys: Rows, run: Entries, asked: Index, at: Index) -> tuple[Entries, Index, Index]:
        """The pairs with equal keys, among pairs with equal hashes."""
        theirs = run.rows.select(self._key)
        if not (self._one_word and keys.columns[0].nulls() is None and theirs.columns[0].nulls() is None):
            same = keys.same(asked, theirs, at)
            if np.count_nonzero(same) < len(same):
                asked, at = asked[same], at[same]
        self.looked_at += len(at)
        return run, asked, at

    def retain(self, wanted: Callable[[Rows], Mask]) -> None:
        """Forget all entries but those whose rows are `wanted`."""
        runs = self.runs
        self.clear()
        for run in runs:
            all_ = run.pick(np.arange(len(run)))
            left = np.flatnonzero(wanted(all_.rows))
            self.insert_numbers(all_.rows.take(left), all_.weights.take(left, axis=0), _taken(all_.rounds, left))

    def contents(self) -> Change:
        """All entries, consolidated."""
        parts = [run.pick(np.arange(len(run))) for run in self.runs]
        if not parts:
            nothing = self._nothing
            return Change(nothing.rows, nothing.weights, nothing.rounds)
        return consolidate(Change.concat(parts))

    def clear(self) -> None:
        self._runs, self._runs_bytes = [], 0
        self._recent.clear()
        if self._packed is not None:
            self._packed.clear()

    def _of_parts(self, parts: list[Entries]) -> Entries:
        """A run of the entries of parts that are in no common order. The list is emptied."""
        if len(parts) == 1 and self._arrange is None:
            return parts.pop()
        return consolidated(Entries.joined(parts), arrange=self._arrange)

    @property
    def _arrange(self) -> Arrange | None:
        """The order of the rows in a run; None for that of the hashes of keys and rows."""
        return None


def _searched(kept: Hashes, hashes: Hashes) -> Iterator[tuple[Index, Index]]:
    """Pairs of one of `hashes` and the kept hash that equals it, in order."""
    first = beside(lambda: kept.searchsorted(hashes), len(hashes))
    hit = kept.take(first, mode="clip") == hashes
    hits = np.count_nonzero(hit)
    if not hits:
        return
    asked = hit.nonzero()[0]
    of = hashes
    if hits < len(hashes):
        first, of = first.take(asked), hashes.take(asked)
    counts = beside(lambda: kept.searchsorted(of, side="right"), len(of))
    counts -= first
    yield from pairs(asked, first, counts)


def _counted(matches: MatchingEntries, time: Rounds) -> MatchingEntries:
    """The entries that count at this time, without their rounds."""
    counts = counts_at(matches.rounds, time)
    now = matches if counts is None else matches.take(counts.nonzero()[0])
    return MatchingEntries(now.asked, now.rows, now.weights, ())


def _taken(rounds: ManyRounds, which: Index) -> ManyRounds:
    return tuple(numbers.take(which) for numbers in rounds)
