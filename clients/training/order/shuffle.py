"""The order of a training epoch, as pure functions of the seed, the epoch and the sizes of the splits.

The splits are permuted, then consecutive splits form windows, and the rows of a window are permuted. A permutation
depends on its key and its length alone: no state leads to it, so every window can be had without those before it. All
arithmetic is on 64-bit integers, so every machine and every release of NumPy gives the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...proto.errors import InvalidRequest
from .reused_memory import ReusedMemory

Positions: TypeAlias = npt.NDArray[np.int64]

_MASK: Final = 2**64 - 1
_STEP: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB

_BLOCK: Final = 32_768
"""So many hashes are computed at a time: in the cache of a core. Each step gives up the interpreter's lock."""
_OF_SPLITS: Final = 1
_OF_ROWS: Final = 2
_OF_WEIGHTS: Final = 3


@dataclass(frozen=True, slots=True)
class Shuffle:
    """An order of rows by a seed: splits are shuffled, and rows within windows.

    A window is made of consecutive shuffled splits that together read at least `rows` rows. A split without a known
    number of rows (a CSV file) is a window. `rows=0` leaves the rows of a split in their order; `splits=False` leaves
    the splits in theirs.

    >>> tidegate.training.Shuffle(7, rows=10_000)
    Shuffle(seed=7, rows=10000, splits=True)
    """

    seed: int = 0
    rows: int = 131_072
    splits: bool = True

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not isinstance(self.rows, int) or isinstance(self.rows, bool) or self.rows < 0:
            raise InvalidRequest(f"rows={self.rows!r} of a shuffle must be a whole number from 0 on")


def check_seed(seed: int) -> None:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _MASK:
        raise InvalidRequest(f"a seed must be a whole number from 0 to 2**64 - 1, not {seed!r}")


@dataclass(frozen=True, slots=True)
class Window:
    """Splits whose rows are shuffled together. Without a key, the rows keep their order."""

    splits: tuple[int, ...]
    key: int | None


def windows(sizes: Sequence[int | None], shuffle: Shuffle | None, epoch: int) -> tuple[Window, ...]:
    """The windows of an epoch, in order. `sizes` are the rows that each split reads, None where unknown."""
    if shuffle is None:
        return tuple(Window((number,), None) for number in range(len(sizes)))
    order = split_order(len(sizes), shuffle, epoch)
    if shuffle.rows == 0:
        return tuple(Window((number,), None) for number in order)
    groups: list[list[int]] = [[]]
    rows = 0
    for number in order:
        if rows >= shuffle.rows:
            groups.append([])
            rows = 0
        size = sizes[number]
        groups[-1].append(number)
        rows += shuffle.rows if size is None else size
    return tuple(
        Window(tuple(group), mixed(shuffle.seed, _OF_ROWS, epoch, at)) for at, group in enumerate(groups) if group
    )


def split_order(count: int, shuffle: Shuffle | None, epoch: int) -> Sequence[int]:
    """The splits of an epoch in their order."""
    if shuffle is None or not shuffle.splits:
        return range(count)
    order: list[int] = permutation(count, mixed(shuffle.seed, _OF_SPLITS, epoch)).tolist()
    return order


def permutation(count: int, key: int, arrays: ReusedMemory | None = None) -> Positions:
    """The numbers below `count`, in an order by `key`: sorted by the upper bits of their hashes, ties by number.

    It is in memory of `arrays`, if there are any.
    """
    arrays = arrays or ReusedMemory()
    lower = np.uint64((1 << max(1, (count - 1).bit_length())) - 1)
    hashes = arrays.empty((count,), np.dtype(np.uint64))
    for first in range(0, count, _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, count), dtype=np.uint64)
        block = _hashed(numbers, key)
        block &= ~lower
        np.bitwise_or(block, numbers, out=hashes[first : first + _BLOCK])
    hashes.sort()  # no two are equal, so the kind of sort does not matter; NumPy's default compares many at once
    hashes &= lower
    return hashes.view(np.int64)


def repeats(weights: npt.NDArray[np.float64], seed: int, epoch: int, split: int) -> Positions:
    """The copies of each row of a split for its weight: the whole part, and one more by a draw for the rest."""
    key = mixed(seed, _OF_WEIGHTS, epoch, split)
    draws = (_hashed(np.arange(len(weights), dtype=np.uint64), key) >> np.uint64(11)) * 2.0**-53
    whole = np.floor(weights)
    return whole.astype(np.int64) + (draws < weights - whole)


def drawn(*words: int) -> float:
    """A number from 0 up to 1, by the words."""
    return (mixed(*words) >> 11) * 2.0**-53


def mixed(*words: int) -> int:
    """A 64-bit hash of whole numbers."""
    state = 0
    for word in words:
        state = _finished((state + (word & _MASK) * _FIRST + _STEP) & _MASK)
    return state


def _finished(state: int) -> int:
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)


def _hashed(numbers: npt.NDArray[np.uint64], key: int) -> npt.NDArray[np.uint64]:
    """`_finished` of numbers, a step apart from the key on."""
    state = numbers * np.uint64(_STEP)
    state += np.uint64((key + _STEP) & _MASK)
    shifted = state >> np.uint64(30)
    state ^= shifted
    state *= np.uint64(_FIRST)
    state ^= np.right_shift(state, np.uint64(27), out=shifted)
    state *= np.uint64(_SECOND)
    state ^= np.right_shift(state, np.uint64(31), out=shifted)
    return state
