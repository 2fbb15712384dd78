"""Which times of a key's history count for a time, and at which later ones it has to be decided again.

State keeps every entry with the time it came in at. What holds at a time is the sum of the entries at times that are
before or at it in every loop. A change at a time therefore shows at later ones too, and what was decided there, from
what held before, may no longer be so: a touched key is decided again at each least time that is after both the change
and an entry of its history, even where no new row arrives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..values.change import ManyRounds, Rounds, by_rounds
from ..values.value_columns import Index, Mask


def counts_at(rounds: ManyRounds, time: Rounds) -> Mask | None:
    """Which entries count for what holds at `time`; None if all do."""
    if not rounds:
        return None
    counts: Mask = rounds[0] <= time[0]
    for numbers, number in zip(rounds[1:], time[1:], strict=True):
        counts &= numbers <= number
    return None if np.count_nonzero(counts) == len(counts) else counts


def again(asked: Index, rounds: ManyRounds, time: Rounds) -> Iterator[tuple[Rounds, Index]]:
    """The later times at which keys touched at `time` are to be decided again, and which of the keys.

    `asked` says whose history each entry is. In one loop the next round of a key's history is enough, as deciding it
    there leads on to the one after it.
    """
    if not rounds:
        return
    if len(rounds) == 1:
        yield from _next_round(asked, rounds, time)
        return
    least = tuple(np.maximum(numbers, number) for numbers, number in zip(rounds, time, strict=True))
    after = np.zeros(len(asked), dtype=np.bool_)
    for numbers, number in zip(least, time, strict=True):
        after |= numbers != number
    if not np.count_nonzero(after):
        return
    keys = asked[after]
    for later, which in by_rounds(tuple(numbers[after] for numbers in least)):
        yield later, np.unique(keys if which is None else keys[which])


def _next_round(asked: Index, rounds: ManyRounds, time: Rounds) -> Iterator[tuple[Rounds, Index]]:
    after = np.flatnonzero(rounds[0] > time[0])
    if not len(after):
        return
    keys, numbers = asked[after], rounds[0][after]
    order = np.lexsort((numbers, keys))
    keys, numbers = keys[order], numbers[order]
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    keys, numbers = keys[first], numbers[first]
    for later, which in by_rounds((numbers,)):
        yield later, keys if which is None else keys[which]
