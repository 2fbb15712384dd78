"""A task's description: what `GetTask` and `WatchTask` show."""

from __future__ import annotations

from collections.abc import Sequence

from ...proto.statistics import SplitStatistics, Statistics
from ...proto.values import ErrorValue, SourceInfo, TaskInfo
from ..api.computation import Computation, Source
from .task_state import Board


def describe(identity: str, board: Board, computation: Computation, warnings: Sequence[str]) -> TaskInfo:
    """Under the task's lock."""
    error = board.error
    return TaskInfo(
        id=identity,
        state=board.state,
        schema=computation.schema,
        sources=tuple(_source(source, board) for source in computation.sources),
        options=board.options,
        statistics=_statistics(board, computation),
        error=ErrorValue(reason=error.reason, message=error.message) if error is not None else None,
        sealed_epoch=board.ledger.sealed,
        completed_epoch=board.output.completed,
        acknowledged=board.output.acknowledged,
        warnings=tuple(warnings),
    )


def _source(source: Source, board: Board) -> SourceInfo:
    fed = board.ledger.fed.get(source.name)
    return SourceInfo(
        name=source.name,
        schema=source.schema,
        static=source.static,
        split_kinds=source.split_kinds,
        last_added=fed.highest if fed is not None else 0,
        last_sealed=fed.sealed if fed is not None else 0,
        ended=fed is None or fed.end is not None,
    )


def _statistics(board: Board, computation: Computation) -> Statistics:
    counters, output = board.counters, board.output
    return Statistics(
        barriers_requested=counters.barriers_requested,
        barriers_completed=counters.barriers_completed,
        barrier_us=counters.barrier_us,
        splits={
            name: SplitStatistics(added=source.added, queued=source.added - source.finished, finished=source.finished)
            for name, source in board.ledger.fed.items()
        },
        operators=computation.operators(),
        loops=computation.loops(),
        stages=computation.stages(),
        progress=computation.progress(),
        plans=computation.plans,
        output_rows=output.rows,
        output_bytes=output.size,
        output_bytes_held=output.memory,
        spilled_bytes=output.disk + board.queue.disk,
    )
