"""The contract of operators on changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..core.operator import StateReader, StateWriter
from .event_time.forgetting import Forgetting
from .kept.arrangement import Arrangement
from .kept.state_format import VERSION, load_arrangement, save_arrangement
from .values.change import Change, Rounds


class Kept(NamedTuple):
    """Rows that an operator keeps: their name and version in a checkpoint, their schema, and the earlier versions that
    the operator reads, too.
    """

    name: str
    arrangement: Arrangement
    schema: pa.Schema
    version: int = VERSION
    earlier: Container[int] = ()


class ChangeOperator(ABC):
    """One channel's instance of an operator whose inputs are changes. It lives, with its state, as long as its task.

    `receive` takes a change from one input, at any times and in any order, and returns the changes that can be passed
    on at once; linear operators and joins pass on all. Other changes wait to be decided. `due` is the earliest time at
    which any change waits, and `decide` gives the changes at that time. The caller promises that by then all changes at
    earlier times, and the inputs at this time, have arrived on all channels. A change that arrives for an earlier time
    after that belongs to a later epoch; state does not tell the two apart, and keeps only sums. `settle` ends the
    epoch: nothing is due any more.

    The changes that an operator gives out need not be consolidated. Rounds are those of the loops around the operator
    that count rounds, outermost first. Times are compared loop by loop to find the entries that count at a time, and
    lexicographically to find the time that comes first.
    """

    schema: pa.Schema
    """The schema of the rows, without their weight."""

    forgetting: Sequence[Forgetting] = ()
    """The kept rows that the watermark bounds."""

    watermark_inputs: Container[int] = ()
    """Inputs whose watermark alone counts: none of their rows comes to the operator."""

    @classmethod
    def state_name(cls) -> str:
        """The name that the operator's state has in a checkpoint."""
        return cls.__name__

    @abstractmethod
    def receive(self, port: int, change: Change) -> Iterable[Change]:
        """Take a change from input `port` and pass on all changes that can be passed on."""

    def due(self) -> Rounds | None:
        """The earliest time at which something waits to be decided."""
        return None

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        """Decide the changes at this time, which was due."""
        raise AssertionError(f"{type(self).__name__} has no decision due at {rounds}")

    def settle(self) -> None:
        """End the epoch. An error here is an error of the epoch's input: a total that is below zero."""

    def advance(self, watermark: int | None) -> Iterable[Change]:
        """Take the watermark of the inputs at the end of an epoch, and pass on the changes that waited for it."""
        for kept in self.forgetting:
            kept.passed(watermark)
        return ()

    def watermark(self, watermark: int | None) -> int | None:
        """The watermark of the operator's rows, behind `advance` with this one of its inputs."""
        return watermark

    def kept(self) -> Iterable[Kept]:
        """The rows that the operator keeps over epochs. Most operators keep none."""
        return ()

    def save(self, state: StateWriter) -> None:
        """Write the state that is kept over epochs."""
        for name, arrangement, schema, version, _ in self.kept():
            save_arrangement(state, name, arrangement, schema, version)

    def load(self, state: StateReader) -> None:
        """Take the state back, in an operator that has received nothing."""
        for rows in self.kept():
            load_arrangement(state, *rows)

    @property
    def touched(self) -> int:
        """The rows of state that were looked at so far, as a measure of the operator's work."""
        return sum(rows.arrangement.touched for rows in self.kept())

    @property
    def nbytes(self) -> int:
        """The bytes of the operator's state, and of changes that wait to be decided."""
        return sum([rows.arrangement.nbytes for rows in self.kept()])
