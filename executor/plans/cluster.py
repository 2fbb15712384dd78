"""What runs a task's pipelines in other processes, as far as its computation knows it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

import pyarrow as pa

from ...operators.changes.network.network_statistics import LoopStatistics, OperatorStatistics
from ...operators.indexes.index import Index
from ...planner.physical.pipelines import KeptIndex, PhysicalPlan
from ...proto.statistics import StageStatistics
from ..pipelines.input_progress import InputProgress
from ..pipelines.kept_rows import Rows
from ..pipelines.pipeline import EpochInput
from ..runtime.meters import Meters


class Keeps(Protocol):
    """What a task computes once from its static sources, wherever that is done."""

    def ensure(self, physical: PhysicalPlan, clock_us: int) -> KeptIndex | None:
        """Compute what of this plan's was not computed yet; or the first index that is too large."""
        ...

    def rows(self, name: str) -> Rows: ...

    def index(self, name: str) -> Index: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """A task's own way to it. What operators count there goes to the meters, and what
    statements read to the progress, that it was made with."""

    @property
    def keeping(self) -> Keeps: ...

    @property
    def plans(self) -> int: ...

    @property
    def loops(self) -> tuple[LoopStatistics, ...]: ...

    @property
    def bodies(self) -> tuple[OperatorStatistics, ...]:
        """Of the loops' bodies."""
        ...

    def stages(self) -> tuple[StageStatistics, ...]:
        """From any thread: those of the run in progress, or of the last one."""
        ...

    def rows(self, physical: PhysicalPlan, *, epoch: int, epoch_input: EpochInput) -> Generator[pa.RecordBatch]:
        """The result of the plan's pipelines, in the order in which they give it here. What they read is counted in
        `epoch_input.read`. However it ends, nothing is running and nothing of the epoch is kept after it.
        """
        ...

    def interrupt(self) -> None:
        """From any thread: make the run in progress fail soon. Does not block."""
        ...

    def close(self) -> None:
        """Never during a run."""
        ...


MakeCluster: TypeAlias = Callable[[Meters, InputProgress], Cluster]
