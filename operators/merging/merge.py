"""One epoch of a merge join: it chooses the rows of the two inputs that are compared next, and closes an input
early.

Rows before the smaller of the two batches' last keys are matched at once: their groups are whole on both sides. The
group of that last key may go on in the next batches, so its held rows are collected first, and then its probed rows are
joined with them, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..arrays.layout import Words
from ..arrays.ordering import Key
from ..arrays.stretches import Stretch
from ..core.key_rows import Holding, KeyRows
from .key_codes import codes
from .key_group import KeyGroup
from .key_ranges import expanded, parts, ranges
from .matcher import Lost, Matcher, ProbeRows
from .sorted_input import SortedInput


class Merge:
    """The merge of one epoch. `strict_keys` are the positions of the keys under which a null matches nothing."""

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
        """True where any row waits. An input is read here only when none of its rows waits, and closed as soon as no
        row that is left in it can come out.
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
        """The ends of the rows of both inputs whose groups are whole, and the key of the group behind them, if both
        inputs have it.
        """
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
        """The join of the rows up to these positions, none of whose keys comes again."""
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
        first, counts = ranges(probe_codes, held_codes, distinct=two.keys.distinct)
        nulls = one.keys.nulls(self._strict_keys, one.start, one.stop)
        if nulls is not None:
            counts = np.where(nulls, 0, counts)
        if self._matcher.meaning.asks_whether and self._matcher.condition is None:
            yield from self._matcher.asked(self._probed(one.start, one.stop), counts > 0)
            return
        held_at = 0
        for at, to, large in parts(probe_codes, counts):
            self._check()
            if large:
                begin, held_to = int(first[at]), int(first[at] + counts[at])
                yield from self._matcher.held_alone(self._held.rows(two.start + held_at, two.start + begin))
                yield from self._large(one.start + at, one.start + to, two.start + begin, two.start + held_to)
            else:
                held_to = int(np.searchsorted(held_codes, probe_codes[to - 1], "right"))
                probe_rows, held_rows = expanded(first, counts, at, to)
                probe_rows, held_rows = self._matcher.kept(
                    self._probe.batch, probe_rows + one.start, self._held.batch, held_rows + two.start
                )
                lost = None
                if self._matcher.meaning.held_alone:
                    unmatched = _others(held_rows - two.start, held_at, held_to)
                    before = np.searchsorted(probe_codes, held_codes[unmatched], side="right")
                    lost = Lost(unmatched + two.start, before + one.start)
                probe = self._probed(one.start + at, one.start + to)
                yield from self._matcher.output(probe, probe_rows, self._held.batch, held_rows, lost)
            held_at = held_to
        yield from self._matcher.held_alone(self._held.rows(two.start + held_at, two.stop))

    def _probed(self, start: int, stop: int) -> ProbeRows:
        return ProbeRows(self._probe.batch, start, stop, self._probe.describe)

    def _large(self, probe_from: int, probe_to: int, held_from: int, held_to: int) -> Iterator[pa.RecordBatch]:
        """The join of a whole group with more pairs than a block."""
        group = self._new_group(fertile=True)
        try:
            group.add(self._held.rows(held_from, held_to))
            group.seal()
            yield from group.join(self._probed(probe_from, probe_to))
            yield from group.rest()
        finally:
            group.close()

    # ------------------------------------------------------------------------------------- a group over several batches

    def _group(self, key: Key) -> Iterator[pa.RecordBatch]:
        """The join of all rows of this key: rows that wait on both sides and rows still to come. (Held rows that need
        not be collected stay in their input: they come out later as rows without a match.)
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
                    yield from group.join(self._probed(probe.start, to))
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
        return KeyGroup(self._matcher, KeyRows(self._holding), fertile=fertile)


def _others(rows: Words, start: int, stop: int) -> Words:
    """The rows from `start` to `stop` that are not among `rows`."""
    missing = np.ones(stop - start, dtype=np.bool_)
    missing[rows - start] = False
    return np.flatnonzero(missing) + start
