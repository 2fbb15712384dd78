"""A prepared graph as a computation: the pipelines of plans, run as those are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

import pyarrow as pa

from ...planner.graph.prepare import PreparedGraph
from ...planner.pipelines import PhysicalPlan
from ...proto.statistics import OperatorStatistics, SourceProgress
from ...proto.values import TaskOptions
from ..dataflow import PlanComputation, Resources
from ..making import RunNode
from ..pipeline import Pieces
from .progress import Reading
from .statements import statement_told


class GraphComputation(PlanComputation):
    """Statistics are told of each channel for itself, and how far the inputs are read. A statement that fails is told
    as executors are: with its node, its channel and the epoch.
    """

    def __init__(self, prepared: PreparedGraph, options: TaskOptions, **resources: Unpack[Resources]) -> None:
        super().__init__(prepared, options, **resources)
        self._reading = Reading(self.meters)

    def begin(self, physical: PhysicalPlan, pieces: Pieces) -> None:
        self._reading.begin(physical, pieces)

    def watched(self, node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return statement_told(node, channel, rows)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()

    def progress(self) -> Mapping[str, SourceProgress]:
        return self._reading.progress()
