"""What the lifecycle of a task asks of its computation, and all it knows of it.

The lifecycle (splits, barriers, output, limits, errors) knows nothing of plans or DuckDB: `dataflow` is the
implementation over the planner's pipelines; the lifecycle's own tests use one of a few lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from ...operators.core.operator import StateReader, StateWriter, Stream
from ...operators.core.piece import FilePiece, Piece
from ...operators.writing.staged_write import Written
from ...proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from ...proto.values import FileSplit, InlineSplit

Watermarks: TypeAlias = Mapping[str, int | None]
"""By source, of those that were fed in the epoch or have ended. None: nobody has said one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A leaf read of the plan. A static one takes no splits."""

    name: str
    schema: pa.Schema
    static: bool
    split_kinds: tuple[str, ...]


class Effect(Protocol):
    """What an epoch does outside its task. It is ready once `sealed` is exhausted, and then committed or dropped."""

    def commit(self) -> Written:
        """It is done, and no longer to be dropped. Raises where it could not be, and has done nothing then."""
        ...

    def drop(self) -> None:
        """It is not done. More than once is harmless, and so is dropping what was never begun."""
        ...


class RowEffect(Effect, Protocol):
    """An effect made of an epoch's rows, which are of the schema `table`; those of `schema` are handed on. `begin`
    comes before each `run`, and a run ends in `commit` or `drop`.
    """

    schema: pa.Schema
    table: pa.Schema
    place: str

    def begin(self, epoch: int) -> None: ...

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


class EpochRun(Protocol):
    """One epoch of the computation. One run at a time, one iterator at a time, each exhausted or closed.

    `early` takes the next pieces of the computation's early source and yields their rows, which are the first of the
    epoch's. `sealed` takes all pieces of every fed source, those handed to `early` too, and the watermarks of the
    sources that were fed or have ended, and yields all the other rows. `watermark` is the result's, once it is
    exhausted.
    """

    @property
    def rows_in(self) -> int: ...

    @property
    def bytes_in(self) -> int: ...

    @property
    def at_least(self) -> bool:
        """Whether more may have been read than `rows_in` and `bytes_in` say."""
        ...

    @property
    def effect(self) -> Effect | None: ...

    @property
    def watermark(self) -> int | None: ...

    def early(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]: ...

    def sealed(self, pieces: Mapping[str, Sequence[Piece]], watermarks: Watermarks) -> Iterator[pa.RecordBatch]: ...


class Computation(Protocol):
    """A plan made ready to run; lives as long as its task.

    `early_source` is the one whose splits may run before the seal. `early_frees` says that nothing asks for those
    splits again once they have run.
    """

    schema: pa.Schema
    sources: tuple[Source, ...]
    warnings: tuple[str, ...]
    early_source: str | None
    early_frees: bool

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:
        """The pieces of a split, in reading order; SplitError or Forbidden where it cannot be read. May be slow."""
        ...

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:
        """SplitError unless rows of its schema can be read as the source's."""
        ...

    def static_sizes(self) -> Mapping[str, int]:
        """The rows of each static source; the bytes of its files, where they do not tell rows."""
        ...

    def epoch(self, number: int, clock_us: int) -> EpochRun: ...

    def save(self, state: StateWriter) -> None:
        """Write all that the epochs to come depend on. Between two epochs."""
        ...

    def load(self, state: StateReader) -> None:
        """Take it back, before the first epoch."""
        ...

    def operators(self) -> tuple[OperatorStatistics, ...]: ...

    def loops(self) -> tuple[LoopStatistics, ...]:
        """Those that go round by round."""
        ...

    def stages(self) -> tuple[StageStatistics, ...]:
        """Those of a Spark job that runs for it, or ran last."""
        ...

    def progress(self) -> Mapping[str, SourceProgress]:
        """How far the inputs are read, where that is told."""
        ...

    @property
    def plans(self) -> int: ...

    def interrupt(self) -> None:
        """From any thread: make the run in progress fail soon. Does not block."""
        ...

    def close(self) -> None:
        """Never during a run."""
        ...
