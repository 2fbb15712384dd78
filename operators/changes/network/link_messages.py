"""Messages that travel over links beside changes, in order with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..values.change import Change, Rounds


@dataclass(frozen=True, slots=True)
class Prepare:
    """The locking prepare: a loop sends it into its body, behind all earlier messages.

    A prepare releases the time `rounds` to the operators that wait for it; None releases nothing. On its way it finds
    out whether an input of the body has not reached the barrier (`marked`), and the earliest time at which a change in
    the body is still `due`. A prepare that releases a time need not go over quiet links: once a prepare that releases
    nothing has come back unmarked, no more rows come from an input of the loop.
    """

    epoch: int
    rounds: Rounds | None
    id: int
    marked: bool = False
    due: Rounds | None = None

    def with_due(self, due: Rounds) -> Prepare:
        """The prepare as it goes on where a change is due at this time."""
        return Prepare(self.epoch, self.rounds, self.id, self.marked, earliest(self.due, due))

    def as_marked(self) -> Prepare:
        """The prepare as it goes on where an input has not reached the barrier."""
        return Prepare(self.epoch, self.rounds, self.id, True, self.due)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark from the moment when the barrier behind it has passed."""

    value: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """The barrier of an epoch: no change of the epoch comes after it, and no change of a later epoch before it."""

    epoch: int


Event: TypeAlias = Prepare | Barrier
Message: TypeAlias = Change | Prepare | Watermark | Barrier


def earliest(left: Rounds | None, right: Rounds | None) -> Rounds | None:
    """The lexicographically first of two times that need not be there."""
    if left is None or (right is not None and right < left):
        return right
    return left


class Gathering:
    """The merge of prepares in one point: one comes on each link (of those that release a time, on `still` links), and
    a single one goes on.
    """

    __slots__ = ("_count", "_due", "_expected", "_marked", "_still")

    def __init__(self, expected: int, still: int | None = None) -> None:
        self._expected = expected
        self._still = expected if still is None else still
        self._count = 0
        self._marked = False
        self._due: Rounds | None = None

    def add(self, prepare: Prepare) -> Prepare | None:
        """Add a prepare. If it was the last one awaited, return the one that goes on: marked if any was, with the
        earliest time of all.
        """
        expected = self._expected if prepare.rounds is None else self._still
        if expected == 1:
            return prepare
        self._count += 1
        self._marked |= prepare.marked
        self._due = earliest(self._due, prepare.due)
        if self._count < expected:
            return None
        gathered = Prepare(prepare.epoch, prepare.rounds, prepare.id, self._marked, self._due)
        self._count, self._marked, self._due = 0, False, None
        return gathered
