"""What an operator on changes is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import pyarrow as pa

from ..core.operator import StateReader, StateWriter
from .values.change import Change, Rounds


class ChangeOperator(ABC):
    """One channel's instance of an operator whose inputs are changes; it lives, with its state, as long as its task.

    `receive` takes a change from one input, at any times and in any order, and gives back what can be passed on at
    once: linear operators and joins give all. What has to be decided waits: `due` is the earliest time of anything
    that does, and `decide` gives what changes at that time. The caller promises that by then everything at earlier
    times, and the inputs at this one, has arrived on all channels; what arrives for an earlier time after that
    belongs to a later epoch, and state tells them apart by nothing but its sums. `settle` ends the epoch: nothing is
    due any more.

    What is given out need not be consolidated. Rounds are those of the loops around the operator that count them,
    outermost first; times are compared loop by loop when something counts for them, and lexicographically when it is
    asked what comes first.
    """

    schema: pa.Schema
    """Of the rows, without their weight."""

    @abstractmethod
    def receive(self, port: int, change: Change) -> Iterable[Change]:
        """Take a change from input `port` and pass on what can be."""

    def due(self) -> Rounds | None:
        """The earliest time at which something waits to be decided."""
        return None

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        """What changes at this time, which was due."""
        raise AssertionError(f"{type(self).__name__} has nothing to decide at {rounds}")

    def settle(self) -> None:
        """The epoch is over. An error here is one of the epoch's input: a total that is below zero."""

    def save(self, state: StateWriter) -> None:
        """Write what is kept over epochs; nothing, for most."""

    def load(self, state: StateReader) -> None:
        """Take it back, in an operator that has received nothing."""

    @property
    def touched(self) -> int:
        """Rows of state that were looked at so far: what its work follows."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of its state, and of what waits to be decided."""
        return 0
