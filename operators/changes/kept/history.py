"""Histories of keys: the entries that count at a time, and the later times at which a key has to be decided again.

State keeps every entry with the time at which it came in. The state at a time is the sum of the entries at times that
are before or at it in every loop. So a change at a time also shows at later times, and a decision there, made from the
earlier state, may be wrong. A touched key is decided again at each least time that is after both the change and an
entry of its history, even where no new row arrives.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..values.change import ManyRounds, Rounds, by_rounds
from ..values.value_columns import Index, Mask


def counts_at(rounds: ManyRounds, time: Rounds) -> Mask | None:
    """True for each entry that counts for the state at `time`; None if all entries count."""
    if not rounds:
        return None
    counts: Mask = rounds[0] <= time[0]
    for numbers, number in zip(rounds[1:], time[1:], strict=True):
        counts &= numbers <= number
    return None if np.count_nonzero(counts) == len(counts) else counts


def again(asked: Index, rounds: ManyRounds, time: Rounds) -> Iterator[tuple[Rounds, Index]]:
    """The later times at which keys touched at `time` are to be decided again, each with these keys.

    `asked` has the key of each entry of the history. In one loop the next round of a key's history is enough, because
    the decision there leads on to the round after it.
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
