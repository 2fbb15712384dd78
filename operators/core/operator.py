"""The operator contract: one epoch is one call of `run`, and the end of its streams is the barrier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from ...proto.errors import TidegateError
from .interrupts import interrupted
from .piece import Piece

Part = TypeVar("Part")

UNBOUNDED: Final = (1 << 63) - 1
"""The watermark of a complete input, which holds no other input back."""


def least_watermark(watermarks: Iterable[int | None]) -> int | None:
    """The watermark of rows made of inputs with these watermarks: the least one; None if one is None."""
    least = UNBOUNDED
    for watermark in watermarks:
        if watermark is None:
            return None
        least = min(least, watermark)
    return least


class Stream(Protocol):
    """Record batches of one epoch, in order. Its end is the barrier.

    `close` says that no more rows are wanted. The call travels up to the scan, which stops reading. It may come at any
    time, and more than once. `watermark` is valid once the stream has ended.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def watermark(self) -> int | None: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def __next__(self) -> pa.RecordBatch: ...

    def close(self) -> None: ...


class StateWriter(Protocol):
    """The receiver of an operator's lasting state at a checkpoint: named tables under a format version."""

    def write(self, name: str, version: int, table: pa.Table) -> None: ...

    def write_parts(self, name: str, version: int, parts: Sequence[Part], table: Callable[[Part], pa.Table]) -> None:
        """Write a table in parts: objects that never change and are equal to themselves alone. A part that was written
        before is not written again.
        """
        ...


class StateReader(Protocol):
    def read(self, name: str) -> tuple[int, pa.Table]: ...

    def read_parts(self, name: str) -> tuple[int, Sequence[pa.Table]]:
        """The table that was written in parts, in the same parts."""
        ...


class Operator(ABC):
    """An operator. The executor calls `run` once per epoch. When the task is idle, the executor closes its operators
    and makes new ones for the next epoch. A `lasting` operator keeps what cannot be made again, and stays.

    A subclass validates its arguments in `__init__` (a generator's checks would wait for the first row) and keeps an
    epoch's state in locals of `run`. It may rely on this: `run` is never called again before the iterator it returned
    is exhausted or closed. The executor closes that iterator on early close, error and cancellation, so `run` closes
    its inputs in `finally`. `run` sets `_interrupted` back, and calls `_stop_if_interrupted` for each batch.
    """

    schema: pa.Schema
    lasting = False
    _plan_path = ""
    _interrupted = False

    @abstractmethod
    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        """Run one epoch: consume each input up to its barrier, yield, drain, return."""

    @property
    def plans(self) -> int:
        """The number of times that DuckDB has planned a statement of the operator."""
        return 0

    def save(self, state: StateWriter) -> None:
        """Write the lasting state. Operators without state inherit this method."""

    def load(self, state: StateReader) -> None:
        """Take the lasting state back."""

    def close(self) -> None:
        """Release resources that outlive an epoch (connections, files): the task is over or idle."""

    def interrupt(self) -> None:
        """Make a `run` in progress fail soon. Another thread makes this call, which must not block.

        An operator that has others in it passes the call on.
        """
        self._interrupted = True

    def _stop_if_interrupted(self) -> None:
        if self._interrupted:
            raise self._interruption()

    def _interruption(self) -> TidegateError:
        return interrupted(self._plan_path)


@runtime_checkable
class ReadsPieces(Protocol):
    """An operator that reads sources itself. `assign` comes before each `run`, for each source it reads."""

    def assign(self, source: str, pieces: Sequence[Piece]) -> None: ...
