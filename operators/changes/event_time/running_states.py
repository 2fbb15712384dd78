"""Keys with states: what running windows keep, and the slices of a block that go one after the other.

Slices are in blocks half as long as a window. So while windows begin in a block, all slices of the next one have come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from ...slices.blocks_of_slices import Blocks
from ..values.change import Numbers
from ..values.order_codes import canonical_orders, order_of
from ..values.rows import Rows
from ..values.value_columns import ArrowColumn, Index, Mask
from .state_numbers import Kept, Part, StateNumbers, Values

_TOGETHER: Final = 8
"""The slices that are taken at once, because each time costs as much as some slices ..."""
_AT_LEAST: Final = 2
_ROWS: Final = 16_384
"""... or fewer, where there are so many rows in them: no epoch is to take far longer than the others."""


class Overlap(NamedTuple):
    """Windows of `length` slices, one every `step` slices, which are fewer. Window n begins with slice n * `step`."""

    length: int
    step: int

    def end(self, window: int) -> int:
        """The slice behind a window's last one."""
        return window * self.step + self.length

    def first(self, slice_: int) -> int:
        """The first window that has a slice."""
        return (slice_ - self.length) // self.step + 1

    @property
    def block_length(self) -> int:
        """The slices of a block."""
        return self.length // 2

    def block(self, window: int) -> int:
        """The block of slices in which a window begins."""
        return window * self.step // self.block_length


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Keys, each with the states of all columns, as these are kept."""

    keys: Rows
    columns: Sequence[Kept]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, at: Index) -> States:
        return States(self.keys_at(at), [[part.take(at) for part in kept] for kept in self.columns])

    def keys_at(self, at: Index) -> Rows:
        return self.keys.take(at).hashed(self.keys.hashes().take(at))

    @classmethod
    def concat(cls, several: Sequence[States]) -> States:
        hashes = np.concatenate([states.keys.hashes() for states in several])
        keys = Rows.concat([states.keys for states in several]).hashed(hashes)
        columns = zip(*(states.columns for states in several), strict=True)
        return cls(keys, [list(map(_concatenated, zip(*kept, strict=True))) for kept in columns])

    @property
    def nbytes(self) -> int:
        states = sum(int(part.nbytes) for kept in self.columns for part in kept)
        return self.keys.nbytes + int(self.keys.hashes().nbytes) + states


@dataclass(frozen=True, slots=True, eq=False)
class Leaving:
    """The slices of a block, in order, each with the states of its key's slices behind it in the block. None are `left`
    behind a key's last slice. Slices before the position `begin` have gone.
    """

    slices: Numbers
    states: States
    left: Mask
    begin: int = 0
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Measure the memory once: it is asked for in each epoch."""
        object.__setattr__(self, "nbytes", int(self.slices.nbytes + self.left.nbytes) + self.states.nbytes)

    def before(self, slice_: int) -> Leaving:
        """The slices that go before this one."""
        return self._between(self.begin, int(self.slices.searchsorted(slice_)))

    def since(self, slice_: int) -> Leaving:
        """The slices that stay until then. The others take room until they are most of all."""
        begin = max(int(self.slices.searchsorted(slice_)), self.begin)
        if 2 * begin < len(self.slices):
            return replace(self, begin=begin)
        return self._between(begin, len(self.slices))

    def begins_before(self, slice_: int) -> bool:
        """Tests whether a slice is before this one."""
        return self.begin < len(self.slices) and bool(self.slices[self.begin] < slice_)

    @classmethod
    def concat(cls, several: Sequence[Leaving]) -> Leaving:
        return cls(
            np.concatenate([leaving.slices for leaving in several]),
            States.concat([leaving.states for leaving in several]),
            np.concatenate([leaving.left for leaving in several]),
        )

    @property
    def bounds(self) -> tuple[int, int] | tuple[()]:
        """The first and the last slice; nothing if there is none."""
        left = self.slices[self.begin :]
        return (int(left[0]), int(left[-1])) if len(left) else ()

    def _between(self, begin: int, end: int) -> Leaving:
        at = np.arange(begin, max(begin, end))
        return Leaving(self.slices.take(at), self.states.take(at), self.left.take(at))


@dataclass(frozen=True, slots=True, eq=False)
class Leavings:
    """The slices of a block in parts, of which there is at least one, in their order."""

    parts: tuple[Leaving, ...]

    def before(self, slice_: int) -> Leaving:
        """The slices that go before this one."""
        first, *others = self.parts
        gone = [part.before(slice_) for part in (first, *(part for part in others if part.begins_before(slice_)))]
        return gone[0] if len(gone) == 1 else Leaving.concat(gone)

    def since(self, slice_: int) -> Leavings:
        """The slices that stay until then."""
        parts = [part.since(slice_) if part.begins_before(slice_) else part for part in self.parts]
        return Leavings(tuple(part for part in parts if part.bounds) or (parts[-1],))

    @property
    def bounds(self) -> tuple[int, ...]:
        return tuple(bound for part in self.parts for bound in part.bounds)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The results of a window: those of the keys in its front and in its back, and the slices of its front."""

    window: int
    front: States
    back: States
    leaving: Leavings

    @property
    def nbytes(self) -> int:
        return self.front.nbytes + self.back.nbytes + self.leaving.nbytes


class NumberedStates:
    """States with the arrays of their parts, and with a number for each one's key, the same for equal keys. Only arrays
    of the same object are joined with each other.
    """

    def __init__(self, forms: Sequence[StateNumbers], states: States) -> None:
        self.states = states
        self.keys = _numbers_of(states.keys)
        self.parts: Sequence[Part] = [part for form in forms for part in form.parts]
        self._forms = forms
        self._known = [form.numbers(kept) for form, kept in zip(forms, states.columns, strict=True)]
        self.numbers = [numbers for known in self._known for numbers in known]

    def by_key(self, begin: int, end: int) -> Index:
        """The positions from `begin` to before `end`, by their keys; those of a key in their order."""
        return begin + np.argsort(self.keys[begin:end], kind="stable")

    def from_first(self, starts: Mask, at: Index) -> list[Values]:
        """The states at these positions, joined in blocks that have such starts: from the first one on."""
        return self._accumulated(Blocks.from_first, starts, at)

    def to_last(self, starts: Mask, at: Index) -> list[Values]:
        """The states at these positions, joined in blocks that have such starts: from the last one back."""
        return self._accumulated(Blocks.to_last, starts, at)

    def joined(self, numbers: Sequence[Values], at: Index) -> States:
        """States of these numbers, which are joined from known ones, with the keys at these positions."""
        left = iter(numbers)
        columns = []
        for form, kept, known in zip(self._forms, self.states.columns, self._known, strict=True):
            columns.append(form.joined([next(left) for _ in form.parts], kept, known))
        return States(self.states.keys_at(at), columns)

    def _accumulated(
        self, accumulate: Callable[[Blocks, np.ufunc, Values], Values], starts: Mask, at: Index
    ) -> list[Values]:
        if not len(at):
            return [numbers[at] for numbers in self.numbers]
        blocks = Blocks(np.flatnonzero(starts), len(at))
        of_parts = zip(self.parts, self.numbers, strict=True)
        return [accumulate(blocks, part.function, numbers[at]) for part, numbers in of_parts]


@dataclass(frozen=True, slots=True, eq=False)
class NextBlock:
    """The results of a block in which later windows begin, made little by little before they do, so that no window has
    to wait until all are made at once. All slices of block `number` have come. Of those from `begin` on, there are the
    `front` and what is left behind each; of the slices behind the block and before `end`, the `back`.
    """

    number: int
    begin: int
    end: int
    front: States
    leaving: Leavings
    back: States

    @classmethod
    def behind(cls, window: int, overlap: Overlap, none: Leaving) -> NextBlock:
        """The block behind the one in which a window begins, of which nothing is made."""
        number = overlap.block(window) + 1
        end = (number + 1) * overlap.block_length
        return cls(number, end, end, none.states, Leavings((none,)), none.states)

    def due(self, window: int, overlap: Overlap) -> int | None:
        """The slice from which the front has to be made behind this window, so that it is whole before a window begins
        in the block; None if there is time.
        """
        first = self.number * overlap.block_length
        begin = max(first, 2 * first - (window + 1) * overlap.step)
        together = min(max(_ROWS // max(len(self.front), 1), _AT_LEAST), _TOGETHER)
        return begin if self.begin - begin >= together or first == begin < self.begin else None

    def extended(
        self,
        forms: Sequence[StateNumbers],
        begin: int,
        of_block: tuple[Numbers, States],
        end: int,
        behind: States,
    ) -> NextBlock:
        """The block with its slices from `begin` on, and with those `behind` it before `end`, in their order."""
        slices, of_slices = of_block
        states = NumberedStates(forms, States.concat([of_slices, self.front, self.back, behind]))
        fronts = len(slices) + len(self.front)
        front, leaving = _front_of(states, fronts, slices)
        leavings = Leavings((leaving, *self.leaving.parts))
        back = _back_of(states, fronts)
        return replace(self, begin=begin, end=end, front=front, leaving=leavings, back=back)

    @property
    def nbytes(self) -> int:
        return self.front.nbytes + self.leaving.nbytes + self.back.nbytes


def starts_of(*numbers: Numbers) -> Mask:
    """True for each row that differs from the row before it in one of the numbers, and for the first one."""
    starts = np.ones(len(numbers[0]), dtype=np.bool_)
    if len(starts):
        starts[1:] = np.logical_or.reduce([some[1:] != some[:-1] for some in numbers])
    return starts


def _concatenated(parts: Sequence[Values | ArrowColumn]) -> Values | ArrowColumn:
    first, *others = parts
    if isinstance(first, ArrowColumn):
        return first.concat([part for part in others if isinstance(part, ArrowColumn)])
    return np.concatenate([part for part in parts if not isinstance(part, ArrowColumn)])


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


def _front_of(states: NumberedStates, end: int, slices: Numbers) -> tuple[States, Leaving]:
    """The joined states before `end`, and what is left behind each of the `slices`, which are the first ones."""
    at = states.by_key(0, end)
    starts = starts_of(states.keys[at])
    results = states.to_last(starts, at)
    first, going = np.flatnonzero(starts), np.flatnonzero(at < len(slices))
    going = going[np.argsort(at[going], kind="stable")]
    left = np.append(~starts[1:], False)[going]
    after = [numbers[np.minimum(going + 1, len(at) - 1)] for numbers in results]
    leaving = Leaving(slices, states.joined(after, at[going]), left)
    return states.joined([numbers[first] for numbers in results], at[first]), leaving


def _back_of(states: NumberedStates, begin: int) -> States:
    """The joined states from `begin` on."""
    at = states.by_key(begin, len(states.states))
    starts = starts_of(states.keys[at])
    last = np.flatnonzero(np.append(starts, True)[1:]) if len(at) else at
    return states.joined([numbers[last] for numbers in states.from_first(starts, at)], at[last])
