"""The interface of the engine behind a service: it makes computations from plans, and describes plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from ...proto.errors import Problem
from ...proto.graph import Graph
from ...proto.spark_frames import FrameFeeds
from ...proto.values import Capabilities, Explanation, PlanBytes, Split, TaskOptions
from ..runtime.batch_store import SpillSpace
from ..runtime.scheduler import Scheduler
from .computation import Computation, RowEffect

MakeEffect: TypeAlias = Callable[[pa.Schema], RowEffect]
"""Makes the effect that the result's rows, of this schema, go through."""


class Engine(Protocol):
    """Makes computations from plans, and describes plans. Thread-safe."""

    def prepare(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        space: SpillSpace,
        scheduler: Scheduler,
    ) -> Computation:
        """A computation that runs the plan.

        `space` is the task's own: files in its folder may be read, whatever the roots are. `scheduler` has the threads
        that may help with its epochs.
        """
        ...

    def prepare_graph(
        self,
        graph: Graph,
        options: TaskOptions,
        space: SpillSpace,
        scheduler: Scheduler,
        effect: MakeEffect | None,
    ) -> Computation: ...

    def explain_graph(self, graph: Graph, options: TaskOptions) -> Explanation: ...

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]: ...

    def explain(
        self, plan: PlanBytes, options: TaskOptions, static_sources: Sequence[str], rows: Mapping[str, int]
    ) -> Explanation: ...

    def capabilities(self) -> Capabilities: ...

    def meaning(self, plan: PlanBytes, tables: Mapping[str, Sequence[Split]], space: SpillSpace) -> str:
        """A digest of the plan's meaning, independent of its encoding. `tables` and `space` are those of `prepare`."""
        ...

    def versions(self) -> Mapping[str, str]:
        """The versions of the engines that compute, by name."""
        ...

    def adopt_spark(self, session: object) -> str:
        """Register a Spark session of the caller's; the name that options use for it."""
        ...

    def over_frames(self, plan: PlanBytes, options: TaskOptions, feeds: FrameFeeds) -> object:
        """The plan over DataFrames of Spark as a DataFrame."""
        ...

    def cores(self, options: TaskOptions, *, start: bool) -> int:
        """The cores that a task with these options may use now. Spark is started if it does not run and `start`."""
        ...

    def close(self) -> None: ...
