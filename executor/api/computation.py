"""The interface between a task's lifecycle and its computation.

The lifecycle (splits, barriers, output, limits, errors) knows nothing of plans or DuckDB. `executor.plans` implements
the interface over the planner's pipelines; the lifecycle's own tests implement it in a few lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from ...operators.core.operator import StateReader, StateWriter, Stream
from ...operators.core.piece import FilePiece, FileVersion, Piece
from ...operators.writing.staged_write import Written
from ...proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from ...proto.values import FileSplit, InlineSplit

Watermarks: TypeAlias = Mapping[str, int | None]
"""Watermarks by source, for sources that were fed in the epoch or have ended. None: no split said a watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A leaf read of the plan. A static source takes no splits."""

    name: str
    schema: pa.Schema
    static: bool
    split_kinds: tuple[str, ...]


class Effect(Protocol):
    """An effect of an epoch outside of its task.

    It is ready once `sealed` is exhausted, and then committed or dropped.
    """

    def commit(self) -> Written:
        """Make the effect final: it can no longer be dropped. If it raises, nothing was done."""
        ...

    def drop(self) -> None:
        """Undo the effect. May be called more than once, and for an effect that never began."""
        ...


class RowEffect(Effect, Protocol):
    """An effect made of an epoch's rows, which have the schema `table`; the task hands on rows of `schema`.

    `begin` comes before each `run`; each run ends with `commit` or `drop`.
    """

    schema: pa.Schema
    table: pa.Schema
    plan_path: str

    def begin(self, epoch: int) -> None: ...

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


class EpochRun(Protocol):
    """One epoch of the computation. One run at a time, one iterator at a time, each exhausted or closed.

    `early` takes the next pieces of the computation's early source and yields their rows, the first rows of the epoch.
    `sealed` takes all pieces of every fed source, including the pieces handed to `early`, and the watermarks of the
    sources that were fed or have ended; it yields all other rows. `watermark` is the result's, valid once `sealed` is
    exhausted.
    """

    @property
    def rows_in(self) -> int: ...

    @property
    def bytes_in(self) -> int: ...

    @property
    def at_least(self) -> bool:
        """True if the epoch may have read more than `rows_in` and `bytes_in` say."""
        ...

    @property
    def on_spark(self) -> bool:
        """True if a Spark job computes the epoch. Valid once `sealed` is exhausted."""
        ...

    @property
    def effect(self) -> Effect | None: ...

    @property
    def watermark(self) -> int | None: ...

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]: ...

    def sealed(self, pieces: Mapping[str, Sequence[Piece]], watermarks: Watermarks) -> Iterator[pa.RecordBatch]: ...


class Computation(Protocol):
    """A plan made ready to run. It lives as long as its task.

    `early_source` is the source whose splits may run before the seal. `early_frees` is true if nothing reads those
    splits again once they have run.
    """

    schema: pa.Schema
    sources: tuple[Source, ...]
    warnings: tuple[str, ...]
    early_source: str | None
    early_frees: bool

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        """The pieces of a split, in reading order.

        Raises `SplitError` or `Forbidden` if it cannot be read. May be slow.
        """
        ...

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:
        """Raise `SplitError` unless rows of the split's schema can be read as the source's."""
        ...

    def static_sizes(self) -> Mapping[str, int]:
        """The rows of each static source, or the bytes of its files if they do not say their rows."""
        ...

    def static_files(self) -> Mapping[str, FileVersion]:
        """The files of the static sources, by their paths, as they were when the computation was made."""
        ...

    def owned_versions(self) -> Mapping[str, str | None]:
        """The versions of what the plan names and the service's owner has: registered operators, and the tables that
        look-ups know by themselves. None for these: such a table may change at any time.
        """
        ...

    def epoch(self, number: int, clock_us: int) -> EpochRun: ...

    def save(self, state: StateWriter) -> None:
        """Write all state that later epochs depend on. Called between two epochs."""
        ...

    def load(self, state: StateReader) -> None:
        """Take saved state back. Called before the first epoch."""
        ...

    def rest(self) -> None:
        """Give back what the next epoch can have made again, such as engines. Between two epochs; more than once is
        harmless.
        """
        ...

    def operators(self) -> tuple[OperatorStatistics, ...]: ...

    def loops(self) -> tuple[LoopStatistics, ...]:
        """Statistics of the loops that run round by round."""
        ...

    def stages(self) -> tuple[StageStatistics, ...]:
        """Statistics of the stages of its Spark job, the running one or the last one."""
        ...

    def progress(self) -> Mapping[str, SourceProgress]:
        """Progress through the inputs, for sources that report it."""
        ...

    @property
    def plans(self) -> int: ...

    def interrupt(self) -> None:
        """Make the run in progress fail soon. From any thread; never blocks."""
        ...

    def close(self) -> None:
        """End the computation. Never called during a run."""
        ...
