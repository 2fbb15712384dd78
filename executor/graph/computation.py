"""A prepared graph as a computation: the pipelines of plans, run as those are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...planner.pipelines import PhysicalPlan
from ...proto.values import OperatorStatistics, SourceProgress
from ..dataflow import PlanComputation
from ..pipeline import Pieces
from .progress import Reading


class GraphComputation(PlanComputation):
    """Statistics are told of each channel for itself, and how far the inputs are read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reading = Reading(self.meters)

    def begin(self, physical: PhysicalPlan, pieces: Pieces) -> None:
        self._reading.begin(physical, pieces)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()

    def progress(self) -> Mapping[str, SourceProgress]:
        return self._reading.progress()
