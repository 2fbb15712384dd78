"""Statistics as wire messages and back."""

from __future__ import annotations

from typing import Final

from .. import statistics as s
from ..tidegate.v1 import tasks_pb2 as pb

_EPOCH_STATISTICS: Final = tuple(field.name for field in pb.EpochStatistics.DESCRIPTOR.fields)
_OPERATOR_STATISTICS: Final = tuple(field.name for field in pb.OperatorStatistics.DESCRIPTOR.fields)
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


def statistics_message(statistics: s.Statistics) -> pb.Statistics:
    return pb.Statistics(
        splits={
            source: pb.SplitStatistics(**{name: getattr(counts, name) for name in _SPLIT_STATISTICS})
            for source, counts in statistics.splits.items()
        },
        operators=[
            pb.OperatorStatistics(**{name: getattr(operator, name) for name in _OPERATOR_STATISTICS})
            for operator in statistics.operators
        ],
        loops=[
            pb.LoopStatistics(**{name: getattr(loop, name) for name in _LOOP_STATISTICS}) for loop in statistics.loops
        ],
        stages=[
            pb.StageStatistics(**{name: getattr(stage, name) for name in _STAGE_STATISTICS})
            for stage in statistics.stages
        ],
        progress={
            source: pb.SourceProgress(
                rows=progress.rows,
                total=progress.total,
                text_bytes=progress.text_bytes,
                total_text_bytes=progress.total_text_bytes,
            )
            for source, progress in statistics.progress.items()
        },
        **{name: getattr(statistics, name) for name in _COUNTERS},
    )


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
