"""The results of neighbouring windows, from what changes them: slices that come, and slices that go.

Slices are in blocks as long as a window. A window begins in one block, its *front*, and ends in the next one, its
*back*; a window that is a block has no back. A key's front changes when one of its slices goes, and its back when one
comes. Between two changes all windows have the same result: such *segments* are computed, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...slices.blocks_of_slices import Blocks
from ..values.change import Numbers
from ..values.limbs import TooLarge
from ..values.order_codes import canonical_orders, order_of
from ..values.rows import Rows
from ..values.value_columns import FixedColumn, Index, Mask
from .running_states import Leaving, Overlap, Running, States
from .state_numbers import Part, StateNumbers, Values


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The windows `first` to `last`, which follow the `running` one."""

    overlap: Overlap
    first: int
    last: int
    running: Running

    @property
    def front(self) -> int:
        """The block in which the running window begins."""
        return self.overlap.block(self.running.window)

    @property
    def turns(self) -> bool:
        """Tests whether a window begins in a later block."""
        return self.overlap.block(self.last) > self.front

    @property
    def low(self) -> int:
        """The first slice that has to be read. Those before it are in the running results."""
        return (self.front + 1) * self.overlap.length if self.turns else self.overlap.end(self.running.window)

    def begins(self, blocks: Numbers) -> Numbers:
        """The first of the windows that begins in each block."""
        return np.maximum(-(-blocks * self.overlap.length // self.overlap.step), self.first)

    def ends(self, blocks: Numbers) -> Numbers:
        """The last of the windows that begins in each block."""
        last = (blocks * self.overlap.length + (self.overlap.length - 1)) // self.overlap.step
        return np.minimum(last, self.last)


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
    """The windows of a span. `states` are those of the running window's front, of slices that leave it, of its back,
    and of slices that were read. `leaving` and `slices` are the numbers of these slices, in order.
    """

    def __init__(
        self, span: Span, forms: Sequence[StateNumbers], states: States, leaving: Leaving, slices: Numbers
    ) -> None:
        self._span = span
        self._forms = forms
        self._parts: Sequence[Part] = [part for form in forms for part in form.parts]
        self._states = states
        self._known = [form.numbers(kept) for form, kept in zip(forms, states.columns, strict=True)]
        self._numbers = [numbers for known in self._known for numbers in known]
        self._keys = _numbers_of(states.keys)
        self._slices = slices
        self._read = len(states) - len(slices)
        """The position of the first state that was read."""
        self._leaving = span.running.leaving.since(span.last * span.overlap.step)
        self._front = self._front_changes(leaving)
        self._back = self._back_changes(len(span.running.front) + len(leaving.slices))
        self._segments = self._merged()

    def results(self, key_schema: pa.Schema) -> Rows:
        """The windows, a row for each key that has a slice in it: its number, the key, the joined states."""
        segments = self._segments.take(np.flatnonzero((self._segments.front >= 0) | (self._segments.back >= 0)))
        front = self._front.numbers_at(segments.front, self._parts)
        back = self._back.numbers_at(segments.back, self._parts)
        numbers = [part.function(*both) for part, *both in zip(self._parts, front, back, strict=True)]
        states = self._joined(numbers, segments.at)
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
        fronts = self._front.numbers_at(segments.front[front], self._parts)
        backs = self._back.numbers_at(segments.back[back], self._parts)
        return Running(
            window=self._span.last,
            front=self._joined(fronts, segments.at[front]),
            back=self._joined(backs, segments.at[back]),
            leaving=self._leaving,
        )

    def _joined(self, numbers: Sequence[Values], at: Index) -> States:
        """States of these numbers, which are joined from known ones, with the keys at these positions."""
        left = iter(numbers)
        columns = []
        for form, kept, known in zip(self._forms, self._states.columns, self._known, strict=True):
            columns.append(form.joined([next(left) for _ in form.parts], kept, known))
        return States(self._states.keys_at(at), columns)

    def _front_changes(self, leaving: Leaving) -> _Changes:
        """The running fronts, what is left behind slices that leave them, and the fronts of later blocks."""
        span, running = self._span, len(self._span.running.front)
        windows = np.concatenate([np.full(running, span.first), leaving.slices // span.overlap.step + 1])
        there = np.concatenate([np.ones(running, dtype=np.bool_), leaving.left])
        at = np.flatnonzero(windows <= span.ends(np.full(1, span.front)))
        numbers = [values.take(at) for values in self._numbers]
        changes = _Changes(self._keys.take(at), at, windows[at], numbers, there[at])
        return _Changes.concat([changes, *self._turned()]) if span.turns else changes

    def _turned(self) -> Sequence[_Changes]:
        """The fronts of later blocks: the results of their slices, then those of what is left behind each slice."""
        span, step = self._span, self._span.overlap.step
        blocks = self._slices // span.overlap.length
        begins = span.begins(blocks)
        mine = (blocks > span.front) & (blocks <= span.overlap.block(span.last)) & (self._slices >= begins * step)
        at = np.flatnonzero(mine) + self._read
        at = at[np.argsort(self._keys[at], kind="stable")]
        if not len(at):
            return ()
        slices, blocks, begins = (numbers[at - self._read] for numbers in (self._slices, blocks, begins))
        keys = self._keys[at]
        starts = _starts(keys, blocks)
        first = np.flatnonzero(starts)
        in_blocks = Blocks(first, len(at))
        of_parts = zip(self._parts, self._numbers, strict=True)
        results = [in_blocks.to_last(part.function, numbers[at]) for part, numbers in of_parts]
        whole = _Changes(keys, at, begins, results, np.ones(len(at), dtype=np.bool_))
        left = np.append(~starts[1:], False)
        behind = np.minimum(np.arange(1, len(at) + 1), len(at) - 1)
        after = _Changes(keys, at, slices // step + 1, [numbers[behind] for numbers in results], left)
        self._keep_leaving(after, slices)
        return whole.take(first), after.take(np.flatnonzero(after.windows <= span.ends(blocks)))

    def _keep_leaving(self, after: _Changes, slices: Numbers) -> None:
        """Keep what is left behind slices of the last window's front."""
        staying = np.flatnonzero(slices >= self._span.last * self._span.overlap.step)
        staying = staying[np.argsort(slices[staying], kind="stable")]
        left = after.take(staying)
        self._leaving = Leaving(slices[staying], self._joined(left.numbers, left.at), left.there)

    def _back_changes(self, begin: int) -> _Changes:
        """The running backs, whose states are at `begin`, and the slices that come, each joined with those before."""
        span, overlap = self._span, self._span.overlap
        blocks = np.append(np.full(self._read - begin, span.front), self._slices // overlap.length - 1)
        windows = np.append(
            np.full(self._read - begin, span.first), (self._slices - overlap.length) // overlap.step + 1
        )
        windows = np.maximum(windows, span.begins(blocks))
        mine = (blocks >= span.front) & (windows <= span.ends(blocks))
        come = (blocks[self._read - begin :] > span.front) | (self._slices >= overlap.end(span.running.window))
        mine[self._read - begin :] &= come
        at = np.flatnonzero(mine)
        at = at[np.argsort(self._keys[at + begin], kind="stable")]
        windows, blocks, at = windows[at], blocks[at], at + begin
        keys, numbers = self._keys[at], [values[at] for values in self._numbers]
        if len(at):
            in_blocks = Blocks(np.flatnonzero(_starts(keys, blocks)), len(at))
            of_parts = zip(self._parts, numbers, strict=True)
            numbers = [in_blocks.from_first(part.function, values) for part, values in of_parts]
        return _Changes(keys, at, windows, numbers, np.ones(len(at), dtype=np.bool_))

    def _merged(self) -> _Segments:
        """The segments, by key and window."""
        span, front, back = self._span, self._front, self._back
        keys, windows = np.append(front.keys, back.keys), np.append(front.windows, back.windows)
        order = np.lexsort((windows, keys))
        if not len(order):
            return _Segments(order, order, order, order, order)
        keys, windows = keys[order], windows[order]
        blocks = windows * span.overlap.step // span.overlap.length
        starts = _starts(keys, blocks)
        position = np.arange(len(order))
        since = np.maximum.accumulate(np.where(starts, position, 0))
        of_front = order < len(front)
        fronts = np.maximum.accumulate(np.where(of_front, position, -1))
        backs = np.maximum.accumulate(np.where(of_front, -1, position))
        last = np.append(np.flatnonzero(_starts(keys, windows)[1:]), len(order) - 1)
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


def _starts(*numbers: Numbers) -> Mask:
    """True for each row that differs from the row before it in one of the numbers, and for the first one."""
    starts = np.ones(len(numbers[0]), dtype=np.bool_)
    if len(starts):
        starts[1:] = np.logical_or.reduce([some[1:] != some[:-1] for some in numbers])
    return starts


def _numbers_of(keys: Rows) -> Index:
    """The number of each key: the same for equal ones."""
    hashes = keys.hashes()
    order = np.argsort(hashes, kind="stable")
    pairs = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    if not keys.same(order[pairs], keys, order[pairs + 1]).all():  # two keys have one hash
        order = order_of(keys, canonical_orders(len(keys.columns)))
        pairs = np.arange(len(order) - 1)
        pairs = pairs[keys.same(order[:-1], keys, order[1:])]
    differs = np.ones(len(order), dtype=np.int64)
    differs[pairs + 1] = 0
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(differs)
    return numbers
