"""A prepared graph as a computation: the pipelines of plans, run as those are."""

from __future__ import annotations

from ...proto.values import OperatorStatistics
from ..dataflow import PlanComputation


class GraphComputation(PlanComputation):
    """Statistics are told of each channel for itself."""

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()
