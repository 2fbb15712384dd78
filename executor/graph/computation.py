"""A prepared graph as a computation: the pipelines of plans, run as those are."""

from __future__ import annotations

from collections.abc import Mapping

from ...planner.pipelines import SourceShape
from ...proto.values import OperatorStatistics
from ..dataflow import PlanComputation
from ..pipelines import Pipelines


class GraphComputation(PlanComputation):
    """Its pipelines are made once, whatever it is fed. Statistics are told of each channel for itself."""

    def pipelines(self, shape: Mapping[str, SourceShape], clock_us: int) -> Pipelines:  # noqa: ARG002 - the same for all
        return super().pipelines({}, clock_us)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()
