"""What the service asks of the engine behind it: computations from plans, and what can be said of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..proto.errors import Problem
from ..proto.values import Capabilities, Explanation, PlanBytes, Split, TaskOptions
from .computation import Computation
from .scheduler import Scheduler
from .store import SpillSpace


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

    def close(self) -> None: ...
