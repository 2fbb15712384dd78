"""The operator contract: one epoch is one call of `run`, and the end of its streams is the barrier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from .piece import Piece

Part = TypeVar("Part")

UNBOUNDED: Final = (1 << 63) - 1
"""The watermark of what is complete, and holds nobody back."""


def least_watermark(watermarks: Iterable[int | None]) -> int | None:
    """That of what is made of inputs with these: the least; None if one has none."""
    least = UNBOUNDED
    for watermark in watermarks:
        if watermark is None:
            return None
        least = min(least, watermark)
    return least


class Stream(Protocol):
    """Record batches of one epoch, in order. Its end is the barrier.

    `close` says that no more rows are wanted; it travels up to the scan, which stops reading, and may be called
    at any time, more than once. `watermark` is valid once the stream has ended.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def watermark(self) -> int | None: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __next__(self) -> pa.RecordBatch: ...

    def close(self) -> None: ...


class StateWriter(Protocol):
    """Where an operator's lasting state goes at a checkpoint: named tables under a format version."""

    def write(self, name: str, version: int, table: pa.Table) -> None: ...

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:
        """A table in parts: objects that never change and are equal to themselves alone. One that was written before is
        not written again.
        """
        ...


class StateReader(Protocol):
    def read(self, name: str) -> tuple[int, pa.Table]: ...

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        """What was written in parts, in the same parts."""
        ...


class Operator(ABC):
    """Lives as long as its task; `run` is called once per epoch.

    A subclass validates its arguments in `__init__` (a generator's checks would wait for the first row), keeps an
    epoch's state in locals of `run`, and may rely on this: `run` is never called again before the iterator it
    returned is exhausted or closed. The executor closes that iterator on early close, error and cancellation, so
    `run` closes its inputs in `finally`.
    """

    schema: pa.Schema

    @abstractmethod
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        """One epoch: consume each input up to its barrier, yield, drain, return."""

    def save(self, state: StateWriter) -> None:
        """Write the lasting state; operators without any inherit this."""

    def load(self, state: StateReader) -> None:
        """Take the lasting state back."""

    def close(self) -> None:
        """The task is over: give back what outlives an epoch (connections, files)."""

    def interrupt(self) -> None:
        """Called from another thread: make a `run` in progress fail soon. Must not block."""


@runtime_checkable
class ReadsPieces(Protocol):
    """An operator that reads sources itself. `assign` comes before each `run`, for each source it reads."""

    def assign(self, source: str, pieces: Sequence[Piece]) -> None: ...
