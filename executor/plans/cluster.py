"""The interface between a computation and the processes that run its pipelines for it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...operators.indexes.index import Index
from ...planner.physical.pipelines import KeptIndex, PhysicalPlan
from ...proto.statistics import StageStatistics
from ..pipelines.input_progress import InputProgress
from ..pipelines.kept_rows import Rows
from ..pipelines.pipeline import EpochInput

ROW_OF_INDEX: Final = 32
"""The most bytes of a row of an index, beside its columns."""


class Keeps(Protocol):
    """The results that a task computes once from its static sources, wherever that happens."""

    def ensure(self, physical: PhysicalPlan, clock_us: int) -> KeptIndex | None:
        """Compute the results that this plan needs and that do not exist yet.

        Returns the first index that is too large.
        """
        ...

    def rows(self, name: str) -> Rows: ...

    def index(self, name: str) -> Index: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """A task's own access to the other processes.

    Their operators count in the meters, and their statements report reading to the progress, that the cluster was made
    with.
    """

    @property
    def keeping(self) -> Keeps: ...

    @property
    def plans(self) -> int: ...

    @property
    def loops(self) -> tuple[LoopStatistics, ...]: ...

    @property
    def bodies(self) -> tuple[OperatorStatistics, ...]:
        """Statistics of the operators in loops' bodies."""
        ...

    def stages(self) -> tuple[StageStatistics, ...]:
        """Statistics of the stages of the run in progress, or of the last one. From any thread."""
        ...

    def rows(self, physical: PhysicalPlan, *, epoch: int, epoch_input: EpochInput) -> Generator[pa.RecordBatch]:
        """The result of the plan's pipelines, in the same order as in this process.

        The rows that they read are counted in `epoch_input.read`. However the run ends, nothing is running and nothing
        of the epoch is kept after it.
        """
        ...

    def interrupt(self) -> None:
        """Make the run in progress fail soon. From any thread; never blocks."""
        ...

    def close(self) -> None:
        """End the access. Never called during a run."""
        ...


MakeCluster: TypeAlias = Callable[[InputProgress], Cluster]
