"""Limits the resources of loops: rows, memory and time. The limits of rounds are in `changes/network/`.

For loops in a statement: their rows, counted as they are found, the statement's memory and its time. For loops that go
round by round: the bytes that they keep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from ...proto.errors import ExecutionError, Exhausted, TidegateError

Later: TypeAlias = Callable[[float, Callable[[], None]], object]
"""A function that has a short call made in so many seconds, on another thread."""


def never(seconds: float, call: Callable[[], None]) -> None:
    """Make no call: `Later` for statements that are not watched."""


_AGAIN_SECONDS: Final = 0.05
"""The time after which an interrupt is repeated: an interrupt just before a statement starts is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBound:
    """The bound of a loop in a statement, with so many `columns`. Beyond `max_rows` rows the statement fails with an
    error that says `mark(loop)`; where the statement's rows are the loop's, it gives one row more instead.
    """

    loop: int
    name: str
    columns: int
    max_rows: int
    plan_path: str


def mark(loop: int) -> str:
    """The text of the statement's error when the loop of this number has too many rows."""
    return f"tidegate: loop {loop} has too many rows."


def counted(loop: LoopBound, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The loop's rows. Raises the loop's error where there are too many."""
    row_count = 0
    for batch in rows:
        row_count += batch.num_rows
        if row_count > loop.max_rows:
            raise _too_many(loop)
        yield batch


class LoopWatch:
    """The watch over a statement's loops. It names the loops where the statement fails because of one. With `seconds`,
    it interrupts a statement that has not given its first row by then.
    """

    def __init__(
        self, bounds: Sequence[LoopBound], *, seconds: float, later: Later, interrupt: Callable[[], None]
    ) -> None:
        self._bounds = tuple(bounds)
        self._seconds = seconds if bounds else 0.0
        self._later = later
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._waiting = False
        self._late = False

    def begin(self) -> None:
        """Begin the watch over a run."""
        if not self._seconds:
            return
        with self._lock:
            self._late = False
            self._deadline = time.monotonic() + self._seconds
            if self._waiting:
                return
            self._waiting = True
        self._later(self._seconds, self._look)

    def end(self) -> None:
        """End the watch: the run has its first row, or has ended without one."""
        with self._lock:
            self._deadline = None

    def _look(self) -> None:
        with self._lock:
            if self._deadline is None:
                self._waiting = False
                return
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._late = True
                self._interrupt()  # under the lock, so that it interrupts this run and not the next one
        self._later(max(left, _AGAIN_SECONDS), self._look)

    def overdue(self) -> TidegateError | None:
        """The error of a run that was interrupted because its loops take too long."""
        if not self._late:
            return None
        message = f"{self._names()} not done after {self._seconds:g} seconds: raise loop_seconds"
        return ExecutionError(f"{self._bounds[0].plan_path}: {message}", reason="LOOP_SECONDS")

    def cause(self, error: BaseException) -> TidegateError | None:
        """The error of a loop that has too many rows."""
        for bound in self._bounds:
            if mark(bound.loop) in str(error):
                return _too_many(bound)
        return None

    def named(self, error: TidegateError) -> TidegateError:
        """The error, with the loops' names where it is about memory."""
        if not self._bounds or error.reason != "MEMORY_LIMIT":
            return error
        return ExecutionError(f"{error.message} ({self._names()} running)", reason=error.reason)

    def _names(self) -> str:
        names = ", ".join(repr(bound.name) for bound in self._bounds)
        return f"loop {names} is" if len(self._bounds) == 1 else f"loops {names} are"


def _too_many(bound: LoopBound) -> ExecutionError:
    message = f"loop {bound.name!r} has more than {bound.max_rows:,} rows: raise loop_rows"
    return ExecutionError(f"{bound.plan_path}: {message}", reason="LOOP_ROWS")


def keeps_too_much(names: str, size: int, memory: int) -> Exhausted:
    """The error of loops that go round by round and keep more than they may. `names` are in quotes."""
    return Exhausted(
        f"loop {names} keeps {size:,} bytes; at most {memory:,}, a third of its share of memory_limit, are allowed: "
        "raise memory_limit, or let fewer rows or columns go round",
        reason="MEMORY_LIMIT",
    )
