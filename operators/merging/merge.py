"""One epoch of a merge join: which rows of the two inputs are compared next, and when an input is given up.

Rows before the smaller of the two batches' last keys are matched at once: their groups are whole on both sides. The
group of that key itself may go on in the next batches, so its held rows are collected first, then probed rows join
them, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ..blocks import BLOCK_ROWS
from ..held_rows import HeldRows, Holding
from ..ordering import Key, Words
from .codes import Stretch, codes
from .group import KeyGroup
from .matcher import Lost, Matcher, ProbeRows
from .sorted_input import SortedInput

#: How many; or whether, where it is one at most.
Counts: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]


class Merge:
    """`strict_keys` are the places of the keys under which a null matches nothing."""

    def __init__(
        self,
        probe: SortedInput,
        held: SortedInput,
        matcher: Matcher,
        holding: Holding,
        strict_keys: Sequence[int],
        check: Callable[[], None],
    ) -> None:
        self._probe = probe
        self._held = held
        self._matcher = matcher
        self._holding = holding
        self._strict_keys = tuple(strict_keys)
        self._check = check

    def batches(self) -> Iterator[pa.RecordBatch]:
        while self._more():
            self._check()
            probe_to, held_to, key = self._reach()
            yield from self._apart(probe_to, held_to)
            if key is not None:
                yield from self._group(key)

    # ---------------------------------------------------------------------------------------- what is read, and closed

    def _more(self) -> bool:
        """Whether any row waits. An input is read here only when none of its rows waits, and closed as soon as none of
        the rows that are left in it can come out.
        """
        meaning, probe, held = self._matcher.meaning, self._probe, self._held
        if (not probe.fill() or probe.barren) and not meaning.held_alone:
            held.drop()
        if (not held.fill() or held.barren) and not meaning.probe_alone:
            probe.drop()
        if not probe.waiting and not meaning.held_alone:
            held.drop()
        return probe.waiting or held.waiting

    # --------------------------------------------------------------------------------------------------- how far to go

    def _reach(self) -> tuple[int, int, Key | None]:
        """How far the rows of both go whose groups are whole, and the key of the group after them, if both have it."""
        probe, held = self._probe, self._held
        if not probe.waiting or not held.waiting:
            return probe.stop, held.stop, None
        key = min(probe.last, held.last)
        probe_to, held_to = probe.lower(key), held.lower(key)
        if held_to == held.upper(key):
            return probe.stop, held_to, None
        if probe_to == probe.upper(key):
            return probe_to, held.stop, None
        return probe_to, held_to, key

    # ----------------------------------------------------------------------------------------------- groups all at once

    def _apart(self, probe_to: int, held_to: int) -> Iterator[pa.RecordBatch]:
        """Rows up to these, none of whose keys comes again."""
        probe, held = self._probe, self._held
        one, two = probe.stretch(probe_to), held.stretch(held_to)
        if not len(one):
            yield from self._matcher.held_alone(held.rows(two.start, two.stop))
        elif not len(two):
            yield from self._matcher.probe_alone(probe.rows(one.start, one.stop))
        else:
            yield from self._matched(one, two)
        probe.advance(probe_to)
        held.advance(held_to)

    def _matched(self, one: Stretch, two: Stretch) -> Iterator[pa.RecordBatch]:
        probe_codes, held_codes = codes(one, two)
        first, counts = _ranges(probe_codes, held_codes, distinct=two.keys.distinct)
        nulls = one.keys.nulls(self._strict_keys, one.start, one.stop)
        if nulls is not None:
            counts = np.where(nulls, 0, counts)
        probe = ProbeRows(self._probe.batch, one.start, one.stop, self._probe.describe)
        if self._matcher.meaning.asks_whether and self._matcher.condition is None:
            yield from self._matcher.asked(probe, counts > 0)
            return
        pairs_before = np.concatenate([[0], np.cumsum(counts)])
        at, held_at = 0, 0
        while at < len(one):
            self._check()
            to = _part(probe_codes, pairs_before, at)
            if pairs_before[to] - pairs_before[at] > BLOCK_ROWS:
                begin, end = int(first[at]), int(first[at] + counts[at])
                yield from self._matcher.held_alone(self._held.rows(two.start + held_at, two.start + begin))
                yield from self._large(one.start + at, one.start + to, two.start + begin, two.start + end)
                at, held_at = to, end
                continue
            held_to = len(two) if to == len(one) else int(np.searchsorted(held_codes, probe_codes[to - 1], "right"))
            probe_rows, held_rows = _expanded(first, counts, at, to)
            probe_rows += one.start
            held_rows += two.start
            probe_rows, held_rows = self._matcher.kept(probe.batch, probe_rows, self._held.batch, held_rows)
            lost = None
            if self._matcher.meaning.held_alone:
                lost = self._lost(one, two, probe_codes, held_codes, held_rows, held_at, held_to)
            part = ProbeRows(probe.batch, one.start + at, one.start + to, probe.describe)
            yield from self._matcher.output(part, probe_rows, self._held.batch, held_rows, lost)
            at, held_at = to, held_to
        yield from self._matcher.held_alone(self._held.rows(two.start + held_at, two.stop))

    def _lost(
        self,
        one: Stretch,
        two: Stretch,
        probe_codes: Words,
        held_codes: Words,
        matched: Words,
        held_at: int,
        held_to: int,
    ) -> Lost:
        """The held rows between these that are not matched. They come after all probed rows of their key."""
        hit = np.zeros(held_to - held_at, dtype=np.bool_)
        hit[matched - (two.start + held_at)] = True
        rows = np.flatnonzero(~hit) + held_at
        before = np.searchsorted(probe_codes, held_codes[rows], side="right")
        return Lost(rows + two.start, before + one.start)

    def _large(self, probe_from: int, probe_to: int, held_from: int, held_to: int) -> Iterator[pa.RecordBatch]:
        """A whole group with more pairs than a block."""
        group = self._new_group(fertile=True)
        try:
            group.add(self._held.rows(held_from, held_to))
            group.seal()
            yield from group.join(ProbeRows(self._probe.batch, probe_from, probe_to, self._probe.describe))
            yield from group.rest()
        finally:
            group.close()

    # ------------------------------------------------------------------------------------- a group over several batches

    def _group(self, key: Key) -> Iterator[pa.RecordBatch]:
        """All rows of this key: those that wait on both sides and those still to come. (Held rows that need not be
        collected stay where they are: they come up as rows without a match.)
        """
        probe, meaning = self._probe, self._matcher.meaning
        nulls = probe.keys.nulls(self._strict_keys, probe.start, probe.start + 1)
        fertile = nulls is None or not bool(nulls[0])
        group = self._new_group(fertile=fertile)
        try:
            if fertile and (not meaning.asks_whether or self._matcher.condition is not None):
                self._collect(group, key)
            group.seal()
            while probe.fill():
                self._check()
                to = probe.upper(key)
                if to > probe.start:
                    yield from group.join(ProbeRows(probe.batch, probe.start, to, probe.describe))
                    probe.advance(to)
                if probe.waiting:
                    break
            yield from group.rest()
        finally:
            group.close()

    def _collect(self, group: KeyGroup, key: Key) -> None:
        held = self._held
        while held.fill():
            self._check()
            to = held.upper(key)
            if to > held.start:
                group.add(held.rows(held.start, to))
                held.advance(to)
            if held.waiting:
                break

    def _new_group(self, *, fertile: bool) -> KeyGroup:
        return KeyGroup(self._matcher, HeldRows(self._held.batch.schema, self._holding), fertile=fertile)


def _ranges(probe: Words, held: Words, *, distinct: bool) -> tuple[Words, Counts]:
    """For each probed row, the first of the held rows with its key, and how many there are."""
    first = np.searchsorted(held, probe, side="left")
    counts: Counts
    if distinct:
        counts = held[np.minimum(first, len(held) - 1)] == probe
    else:
        counts = np.searchsorted(held, probe, side="right") - first
    return first, counts


def _part(codes: Words, pairs_before: Words, at: int) -> int:
    """The end of as many whole groups from `at` as make a block of pairs; of one group at least."""
    to = int(np.searchsorted(pairs_before, pairs_before[at] + BLOCK_ROWS, side="right")) - 1
    if to >= len(codes):
        return len(codes)
    to = int(np.searchsorted(codes, codes[to], side="left"))
    return to if to > at else int(np.searchsorted(codes, codes[at], side="right"))


def _expanded(first: Words, counts: Counts, at: int, to: int) -> tuple[Words, Words]:
    """The pairs of the probed rows `at` to `to`."""
    counts = counts[at:to]
    if counts.dtype == np.bool_ or counts.max(initial=0) <= 1:
        rows = np.flatnonzero(counts) + at
        return rows, first[rows]
    rows = np.repeat(np.arange(at, to), counts)
    starts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - np.repeat(starts - first[at:to], counts)
