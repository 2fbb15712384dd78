"""Keys with states: what running windows keep, and the slices of a block that go one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..values.change import Numbers
from ..values.rows import Rows
from ..values.value_columns import ArrowColumn, Index, Mask
from .state_numbers import Kept, Values


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

    def block(self, window: int) -> int:
        """The block of slices in which a window begins."""
        return window * self.step // self.length


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

    def before(self, slice_: int) -> Leaving:
        """The slices that go before this one."""
        return self._between(self.begin, int(self.slices.searchsorted(slice_)))

    def since(self, slice_: int) -> Leaving:
        """The slices that stay until then. The others take room until they are most of all."""
        begin = max(int(self.slices.searchsorted(slice_)), self.begin)
        if 2 * begin < len(self.slices):
            return replace(self, begin=begin)
        return self._between(begin, len(self.slices))

    @property
    def bounds(self) -> tuple[int, int] | tuple[()]:
        """The first and the last slice; nothing if there is none."""
        left = self.slices[self.begin :]
        return (int(left[0]), int(left[-1])) if len(left) else ()

    @property
    def nbytes(self) -> int:
        return int(self.slices.nbytes + self.left.nbytes) + self.states.nbytes

    def _between(self, begin: int, end: int) -> Leaving:
        at = np.arange(begin, max(begin, end))
        return Leaving(self.slices.take(at), self.states.take(at), self.left.take(at))


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """The results of a window: those of the keys in its front and in its back, and the slices of its front."""

    window: int
    front: States
    back: States
    leaving: Leaving

    @property
    def nbytes(self) -> int:
        return self.front.nbytes + self.back.nbytes + self.leaving.nbytes


def _concatenated(parts: Sequence[Values | ArrowColumn]) -> Values | ArrowColumn:
    first, *others = parts
    if isinstance(first, ArrowColumn):
        return first.concat([part for part in others if isinstance(part, ArrowColumn)])
    return np.concatenate([part for part in parts if not isinstance(part, ArrowColumn)])
