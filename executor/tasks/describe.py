"""A task's description, as `GetTask` and `WatchTask` show it."""

from __future__ import annotations

from collections.abc import Sequence

from ...proto.statistics import SplitStatistics, Statistics
from ...proto.values import ErrorValue, SourceInfo, TaskInfo, TaskOptions, TaskPhase
from ..api.computation import Computation, Source
from .task_state import TaskState


def describe(identity: str, task_state: TaskState, computation: Computation, warnings: Sequence[str]) -> TaskInfo:
    """The description. Called under the task's lock."""
    error, recovery = task_state.error, task_state.recovery
    return TaskInfo(
        id=identity,
        state=task_state.phase if recovery is None else TaskPhase.RECOVERING,
        schema=computation.schema,
        sources=tuple(_source(source, task_state) for source in computation.sources),
        options=task_state.options,
        statistics=_statistics(task_state, computation),
        error=ErrorValue(reason=error.reason, message=error.message) if error is not None else None,
        sealed_epoch=task_state.ledger.sealed,
        completed_epoch=task_state.output.completed,
        acknowledged=task_state.output.last_acknowledged,
        warnings=tuple(warnings),
        recovery=recovery,
    )


def first_description(
    identity: str, options: TaskOptions, computation: Computation, warnings: Sequence[str]
) -> TaskInfo:
    """The description of a task that was just made."""
    return TaskInfo(
        id=identity,
        state=TaskPhase.RUNNING,
        schema=computation.schema,
        sources=tuple(
            SourceInfo(name=source.name, schema=source.schema, static=source.static, split_kinds=source.split_kinds)
            for source in computation.sources
        ),
        options=options,
        statistics=Statistics(),
        warnings=tuple(warnings),
    )


def _source(source: Source, task_state: TaskState) -> SourceInfo:
    fed = task_state.ledger.fed.get(source.name)
    return SourceInfo(
        name=source.name,
        schema=source.schema,
        static=source.static,
        split_kinds=source.split_kinds,
        last_added=fed.highest if fed is not None else 0,
        last_sealed=fed.sealed if fed is not None else 0,
        ended=fed is None or fed.end is not None,
    )


def _statistics(task_state: TaskState, computation: Computation) -> Statistics:
    counters, output = task_state.counters, task_state.output
    return Statistics(
        barriers_requested=counters.barriers_requested,
        barriers_completed=counters.barriers_completed,
        barrier_us=counters.barrier_us,
        splits={
            name: SplitStatistics(added=source.added, queued=source.added - source.finished, finished=source.finished)
            for name, source in task_state.ledger.fed.items()
        },
        operators=computation.operators(),
        loops=computation.loops(),
        stages=computation.stages(),
        progress=computation.progress(),
        plans=computation.plans,
        output_rows=output.rows,
        output_bytes=output.size,
        output_bytes_held=output.memory,
        spilled_bytes=task_state.quota.used - task_state.queue.lent,
    )
