"""The results of neighbouring windows, from what changes them: slices that come, and slices that go.

A window begins in one block, its *front*. All of its slices behind this block are its *back*: those of the next block,
and of the one behind it up to the window's end. A key's front changes when one of its slices goes, and its back when
one comes. Between two changes all windows have the same result: such *segments* are computed, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...slices.blocks_of_slices import any_sum
from ..values.change import Numbers
from ..values.limbs import TooLarge
from ..values.rows import Rows
from ..values.value_columns import FixedColumn, Index, Mask
from .running_states import Leaving, Leavings, NextBlock, NumberedStates, Overlap, Running, States, starts_of
from .state_numbers import Part, StateNumbers, Values


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The windows `first` to `last`, which follow the `running` one. If the last one begins in the `next` block, this
    has its front, and its back up to the end of the running window.
    """

    overlap: Overlap
    first: int
    last: int
    running: Running
    next: NextBlock | None = None

    @property
    def front(self) -> int:
        """The block in which the running window begins."""
        return self.overlap.block(self.running.window)

    @property
    def turns(self) -> bool:
        """Tests whether a window begins in a later block, whose front is not known."""
        return self.next is None and self.overlap.block(self.last) > self.front

    @property
    def low(self) -> int:
        """The first slice that has to be read. Those before it are in known results."""
        return (self.front + 1) * self.overlap.block_length if self.turns else self.overlap.end(self.running.window)

    def begins(self, blocks: Numbers) -> Numbers:
        """The first of the windows that begins in each block."""
        return np.maximum(-(-blocks * self.overlap.block_length // self.overlap.step), self.first)

    def ends(self, blocks: Numbers) -> Numbers:
        """The last of the windows that begins in each block."""
        length = self.overlap.block_length
        return np.minimum((blocks * length + (length - 1)) // self.overlap.step, self.last)


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """Changes of keys' fronts, or of their backs: from each of `windows` on, the key has these numbers. Those of a key
    are in order. `keys` are numbers of keys, `at` positions of states that have the key. What is not `there` has gone.
    """

    keys: Index
    at: Index
    windows: Numbers
    numbers: Sequence[Values]
    there: Mask

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, which: Index) -> _Changes:
        numbers = [values.take(which) for values in self.numbers]
        return _Changes(self.keys[which], self.at[which], self.windows[which], numbers, self.there[which])

    def numbers_at(self, which: Index, parts: Sequence[Part]) -> list[Values]:
        """The numbers of these changes; those that change nothing where there is none, for -1."""
        none = which < 0
        if not none.any():
            return [values.take(which) for values in self.numbers]
        some = np.flatnonzero(~none)
        all_ = [np.full(len(which), part.identity, dtype=values.dtype) for part, values in self._by_part(parts)]
        for filled, values in zip(all_, self.numbers, strict=True):
            filled[some] = values.take(which[some])
        return all_

    def _by_part(self, parts: Sequence[Part]) -> zip[tuple[Part, Values]]:
        return zip(parts, self.numbers, strict=True)

    @classmethod
    def concat(cls, several: Sequence[_Changes]) -> _Changes:
        if len(several) == 1:
            return several[0]
        return cls(
            np.concatenate([changes.keys for changes in several]),
            np.concatenate([changes.at for changes in several]),
            np.concatenate([changes.windows for changes in several]),
            [np.concatenate(values) for values in zip(*(changes.numbers for changes in several), strict=True)],
            np.concatenate([changes.there for changes in several]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Segments:
    """Windows of a key from `windows` to before `ends`, with the positions of the changes of its front and its back
    that hold in them; -1 for none. `at` are positions of states that have the key.
    """

    at: Index
    windows: Numbers
    ends: Numbers
    front: Index
    back: Index

    def take(self, which: Index) -> _Segments:
        columns = (self.at, self.windows, self.ends, self.front, self.back)
        return _Segments(*(column.take(which) for column in columns))


class WindowSegments:
    """The windows of a span. `read` are the states of the span's slices from its `low` one on, and `slices` their
    numbers, in order.
    """

    def __init__(self, span: Span, forms: Sequence[StateNumbers], read: States, slices: Numbers) -> None:
        self._span = span
        self._forms = forms
        self._slices = slices
        stays, running, next_ = span.last * span.overlap.step, span.running, span.next
        gone = [running.leaving.before(stays), *([] if next_ is None else [next_.leaving.before(stays)])]
        known = [running.front, gone[0].states, running.back]
        if next_ is not None:
            known += [next_.front, gone[1].states, next_.back]
        self._begins = np.cumsum([0, *map(len, known)]).tolist()
        """The position of the first state of each of these, and of the slices."""
        self._states = NumberedStates(forms, States.concat([*known, read]))
        self._leaving = (running if next_ is None else next_).leaving.since(stays)
        self._front = self._front_changes(gone)
        self._back = self._back_changes()
        self._segments = self._merged()

    @property
    def looked_at(self) -> int:
        """The known states that were read."""
        return int(self._begins[-1])

    @any_sum
    def results(self, key_schema: pa.Schema) -> Rows:
        """The windows, a row for each key that has a slice in it: its number, the key, the joined states."""
        segments = self._segments.take(np.flatnonzero((self._segments.front >= 0) | (self._segments.back >= 0)))
        front = self._front.numbers_at(segments.front, self._states.parts)
        back = self._back.numbers_at(segments.back, self._states.parts)
        numbers = [part.function(*both) for part, *both in zip(self._states.parts, front, back, strict=True)]
        states = self._states.joined(numbers, segments.at)
        try:
            columns = [form.column(kept) for form, kept in zip(self._forms, states.columns, strict=True)]
        except TooLarge as error:
            if not len(key_schema):
                raise
            raise error.of(states.keys.described(key_schema, error.at)) from None
        rows = Rows([FixedColumn(segments.windows), *states.keys.columns, *columns], len(segments.at))
        counts = segments.ends - segments.windows
        if int(counts.sum()) == len(counts):
            return rows
        of = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        _, *others = rows.take(of).columns
        return Rows([FixedColumn(segments.windows.take(of) + within), *others], len(of))

    def running(self) -> Running:
        """The results of the last window."""
        segments = self._segments.take(np.flatnonzero(self._segments.ends > self._span.last))
        front, back = np.flatnonzero(segments.front >= 0), np.flatnonzero(segments.back >= 0)
        fronts = self._front.numbers_at(segments.front[front], self._states.parts)
        backs = self._back.numbers_at(segments.back[back], self._states.parts)
        return Running(
            window=self._span.last,
            front=self._states.joined(fronts, segments.at[front]),
            back=self._states.joined(backs, segments.at[back]),
            leaving=self._leaving,
        )

    def _front_changes(self, gone: Sequence[Leaving]) -> _Changes:
        """The fronts of blocks, and what is left behind slices that leave them."""
        span = self._span
        changes = []
        for number, leaving in enumerate(gone):
            block = np.full(1, span.front + number)
            begin, end = self._begins[3 * number], self._begins[3 * number + 2]
            fronts, windows = end - begin - len(leaving.slices), leaving.slices // span.overlap.step + 1
            windows = np.maximum(np.append(np.full(fronts, span.first), windows), span.begins(block))
            there = np.append(np.ones(fronts, dtype=np.bool_), leaving.left)
            some = np.flatnonzero(windows <= span.ends(block))
            at = begin + some
            numbers = [values.take(at) for values in self._states.numbers]
            changes.append(_Changes(self._states.keys.take(at), at, windows[some], numbers, there[some]))
        return _Changes.concat([*changes, *(self._turned() if span.turns else ())])

    def _turned(self) -> Sequence[_Changes]:
        """The fronts of later blocks: the results of their slices, then those of what is left behind each slice."""
        span, step, read = self._span, self._span.overlap.step, self._begins[-1]
        blocks = self._slices // span.overlap.block_length
        begins = span.begins(blocks)
        mine = (blocks > span.front) & (blocks <= span.overlap.block(span.last)) & (self._slices >= begins * step)
        at = np.flatnonzero(mine) + read
        at = at[np.argsort(self._states.keys[at], kind="stable")]
        if not len(at):
            return ()
        slices, blocks, begins = (numbers[at - read] for numbers in (self._slices, blocks, begins))
        keys = self._states.keys[at]
        starts = starts_of(keys, blocks)
        results = self._states.to_last(starts, at)
        whole = _Changes(keys, at, begins, results, np.ones(len(at), dtype=np.bool_))
        left = np.append(~starts[1:], False)
        behind = np.minimum(np.arange(1, len(at) + 1), len(at) - 1)
        after = _Changes(keys, at, slices // step + 1, [numbers[behind] for numbers in results], left)
        self._keep_leaving(after, slices)
        return whole.take(np.flatnonzero(starts)), after.take(np.flatnonzero(after.windows <= span.ends(blocks)))

    def _keep_leaving(self, after: _Changes, slices: Numbers) -> None:
        """Keep what is left behind slices of the last window's front."""
        staying = np.flatnonzero(slices >= self._span.last * self._span.overlap.step)
        staying = staying[np.argsort(slices[staying], kind="stable")]
        left = after.take(staying)
        self._leaving = Leavings((Leaving(slices[staying], self._states.joined(left.numbers, left.at), left.there),))

    def _back_changes(self) -> _Changes:
        """The known backs, and the slices that come, each joined with those before. A slice is in the backs of the
        windows that begin in either of the two blocks before its own one.
        """
        span, overlap, begins = self._span, self._span.overlap, self._begins
        backs = [np.arange(begins[at], begins[at + 1]) for at in range(2, len(begins) - 1, 3)]
        known = [np.full(len(back), span.front + number) for number, back in enumerate(backs)]
        slices, own = np.arange(len(self._slices)) + begins[-1], self._slices // overlap.block_length
        come = (self._slices - overlap.length) // overlap.step + 1
        at = np.concatenate([*backs, slices, slices])
        blocks = np.concatenate([*known, own - 1, own - 2])
        windows = np.concatenate([*(np.full(len(back), span.first) for back in backs), come, come])
        windows = np.maximum(windows, span.begins(blocks))
        # The running window's back has the slices before the window's end.
        lacking = span.front + (self._slices < overlap.end(span.running.window))
        mine = (blocks >= np.concatenate([*known, lacking, lacking])) & (windows <= span.ends(blocks))
        mine = np.flatnonzero(mine)
        mine = mine[np.lexsort((blocks[mine], self._states.keys[at[mine]]))]
        at, windows, blocks = at[mine], windows[mine], blocks[mine]
        keys = self._states.keys[at]
        numbers = self._states.from_first(starts_of(keys, blocks), at)
        return _Changes(keys, at, windows, numbers, np.ones(len(at), dtype=np.bool_))

    def _merged(self) -> _Segments:
        """The segments, by key and window."""
        span, front, back = self._span, self._front, self._back
        keys, windows = np.append(front.keys, back.keys), np.append(front.windows, back.windows)
        order = np.lexsort((windows, keys))
        if not len(order):
            return _Segments(order, order, order, order, order)
        keys, windows = keys[order], windows[order]
        blocks = windows * span.overlap.step // span.overlap.block_length
        starts = starts_of(keys, blocks)
        position = np.arange(len(order))
        since = np.maximum.accumulate(np.where(starts, position, 0))
        of_front = order < len(front)
        fronts = np.maximum.accumulate(np.where(of_front, position, -1))
        backs = np.maximum.accumulate(np.where(of_front, -1, position))
        last = np.append(np.flatnonzero(starts_of(keys, windows)[1:]), len(order) - 1)
        ends = span.ends(blocks[last]) + 1
        goes_on = ~starts[last[:-1] + 1]
        ends[:-1][goes_on] = windows[last[1:]][goes_on]
        since, fronts, backs = since[last], fronts[last], backs[last]
        there = fronts >= since
        there[there] = front.there[order[fronts[there]]]
        return _Segments(
            at=np.append(front.at, back.at)[order[last]],
            windows=windows[last],
            ends=ends,
            front=np.where(there, order[fronts], -1),
            back=np.where(backs >= since, order[backs] - len(front), -1),
        )
