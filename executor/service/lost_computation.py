"""The computation of a task that is over, or that could not be made again: it has the task's columns, and no work."""

from __future__ import annotations

from collections.abc import Mapping

from ...operators.core.operator import StateReader, StateWriter
from ...operators.core.piece import FilePiece, FileVersion
from ...proto.errors import TidegateError
from ...proto.statistics import LoopStatistics, OperatorStatistics, SourceProgress, StageStatistics
from ...proto.values import FileSplit, InlineSplit, TaskInfo
from ..api.computation import EpochRun, Source


class LostComputation:
    """Implements `api.computation.Computation` for a task that was described by `info`. `error` is what others get."""

    early_source: str | None = None
    early_frees = False
    plans = 0

    def __init__(self, info: TaskInfo, error: TidegateError) -> None:
        self.schema = info.schema
        self.warnings = info.warnings
        self.sources = tuple(
            Source(name=source.name, schema=source.schema, static=source.static, split_kinds=source.split_kinds)
            for source in info.sources
        )
        self._error = error

    def accept_file(self, source: str, split: FileSplit, origin: str) -> tuple[FilePiece, ...]:  # noqa: ARG002
        raise self._error

    def accept_inline(self, source: str, split: InlineSplit, origin: str) -> None:  # noqa: ARG002
        raise self._error

    def static_sizes(self) -> Mapping[str, int]:
        return {}

    def static_files(self) -> Mapping[str, FileVersion]:
        return {}

    def owned_versions(self) -> Mapping[str, str | None]:
        return {}

    def epoch(self, number: int, clock_us: int) -> EpochRun:  # noqa: ARG002
        raise self._error

    def save(self, state: StateWriter) -> None:
        """Save nothing: there is no state."""

    def load(self, state: StateReader) -> None:
        """Load nothing: there is no state."""

    def rest(self) -> None:
        """Give nothing back: nothing was made."""

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return ()

    def loops(self) -> tuple[LoopStatistics, ...]:
        return ()

    def stages(self) -> tuple[StageStatistics, ...]:
        return ()

    def progress(self) -> Mapping[str, SourceProgress]:
        return {}

    def interrupt(self) -> None:
        """Interrupt nothing: nothing runs."""

    def close(self) -> None:
        """Close nothing: nothing was made."""
