"""A prepared graph as a computation: the pipelines of plans, run as those are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ...operators.piece import Piece
from ...planner.pipelines import SourceShape
from ...proto.errors import NodeError
from ...proto.values import OperatorStatistics
from ..dataflow import PlanComputation, PlanRun
from ..pipelines import Pipelines

_log = logging.getLogger(__name__)


class GraphComputation(PlanComputation):
    """Its pipelines are made once, whatever it is fed. Statistics are told of each channel for itself."""

    def pipelines(self, shape: Mapping[str, SourceShape], clock_us: int) -> Pipelines:  # noqa: ARG002 - the same for all
        return super().pipelines({}, clock_us)

    def epoch(self, number: int, clock_us: int) -> GraphRun:
        return GraphRun(self, clock_us, number)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()


class GraphRun(PlanRun):
    """What the user's code raises is told with the epoch, and logged with its traceback."""

    def sealed(self, pieces: Mapping[str, Sequence[Piece]]) -> Iterator[pa.RecordBatch]:
        try:
            yield from super().sealed(pieces)
        except NodeError as error:
            told = error.in_epoch(self.number)
            _log.error("the code of a graph failed: %s", told, exc_info=error.__cause__)
            raise told from error.__cause__
