"""What the service asks of the engine behind it: computations from plans, and what can be said of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from ...proto.errors import Problem
from ...proto.graph import Graph
from ...proto.values import Capabilities, Explanation, PlanBytes, Split, TaskOptions
from ..runtime.batch_store import SpillSpace
from ..runtime.scheduler import Scheduler
from .computation import Computation, RowEffect

MakeEffect: TypeAlias = Callable[[pa.Schema], RowEffect]
"""What rows of this schema are to go through at last."""


class Engine(Protocol):
    """Thread-safe."""

    def prepare(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        space: SpillSpace,
        scheduler: Scheduler,
    ) -> Computation:
        """`space` is the task's own: files in its folder may be read, whatever the roots are. `scheduler` has the
        threads that may help with its epochs.
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

    def meaning(self, plan: PlanBytes) -> str:
        """A digest of what a plan says, however it is encoded."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Of what computes, by its name."""
        ...

    def adopt_spark(self, session: object) -> str:
        """What a Spark session of the caller's is called in options."""
        ...

    def close(self) -> None: ...
