"""Statistics as wire messages and back."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from .. import statistics as s
from ..tidegate.v1 import tasks_pb2 as pb

_EPOCH_STATISTICS: Final = tuple(field.name for field in pb.EpochStatistics.DESCRIPTOR.fields)
_OPERATOR_STATISTICS: Final = tuple(field.name for field in pb.OperatorStatistics.DESCRIPTOR.fields)
_operator_values: Final = attrgetter(*_OPERATOR_STATISTICS)
_LOOP_STATISTICS: Final = tuple(field.name for field in pb.LoopStatistics.DESCRIPTOR.fields)
_STAGE_STATISTICS: Final = tuple(field.name for field in pb.StageStatistics.DESCRIPTOR.fields)
_SPLIT_STATISTICS: Final = tuple(field.name for field in pb.SplitStatistics.DESCRIPTOR.fields)
_COUNTERS: Final = tuple(
    field.name
    for field in pb.Statistics.DESCRIPTOR.fields
    if field.name not in ("splits", "operators", "loops", "stages", "progress")
)


def epoch_statistics_message(statistics: s.EpochStatistics) -> pb.EpochStatistics:
    return pb.EpochStatistics(**{name: getattr(statistics, name) for name in _EPOCH_STATISTICS})


def epoch_statistics_value(message: pb.EpochStatistics) -> s.EpochStatistics:
    return s.EpochStatistics(**{name: getattr(message, name) for name in _EPOCH_STATISTICS})


def fill_statistics(message: pb.Statistics, statistics: s.Statistics) -> None:
    """Fill an empty message in its place."""
    for name in _COUNTERS:
        setattr(message, name, getattr(statistics, name))
    for source, counts in statistics.splits.items():
        entry = message.splits[source]
        entry.added, entry.queued, entry.finished = counts.added, counts.queued, counts.finished
    for source, progress in statistics.progress.items():
        shown = message.progress[source]
        shown.rows, shown.text_bytes = progress.rows, progress.text_bytes
        shown.total_text_bytes = progress.total_text_bytes
        if progress.total is not None:
            shown.total = progress.total
    for operator in statistics.operators:
        message.operators.add(**dict(zip(_OPERATOR_STATISTICS, _operator_values(operator), strict=True)))
    for loop in statistics.loops:
        message.loops.add(**{name: getattr(loop, name) for name in _LOOP_STATISTICS})
    for stage in statistics.stages:
        message.stages.add(**{name: getattr(stage, name) for name in _STAGE_STATISTICS})


def _loop_statistics_value(message: pb.LoopStatistics) -> s.LoopStatistics:
    counters = {name: getattr(message, name) for name in _LOOP_STATISTICS}
    return s.LoopStatistics(**{**counters, "last_rows": tuple(message.last_rows)})


def _stage_statistics_value(message: pb.StageStatistics) -> s.StageStatistics:
    counters = {name: getattr(message, name) for name in _STAGE_STATISTICS}
    return s.StageStatistics(**{**counters, "pipelines": tuple(message.pipelines)})


def _source_progress_value(message: pb.SourceProgress) -> s.SourceProgress:
    return s.SourceProgress(
        rows=message.rows,
        total=message.total if message.HasField("total") else None,
        text_bytes=message.text_bytes,
        total_text_bytes=message.total_text_bytes,
    )


def statistics_value(message: pb.Statistics) -> s.Statistics:
    return s.Statistics(
        splits={
            source: s.SplitStatistics(**{name: getattr(counts, name) for name in _SPLIT_STATISTICS})
            for source, counts in message.splits.items()
        },
        operators=tuple(
            s.OperatorStatistics(**{name: getattr(operator, name) for name in _OPERATOR_STATISTICS})
            for operator in message.operators
        ),
        loops=tuple(map(_loop_statistics_value, message.loops)),
        stages=tuple(map(_stage_statistics_value, message.stages)),
        progress={source: _source_progress_value(progress) for source, progress in message.progress.items()},
        **{name: getattr(message, name) for name in _COUNTERS},
    )
