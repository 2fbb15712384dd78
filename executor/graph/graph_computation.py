"""A prepared graph as a computation. Its pipelines run as those of plans do."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...proto.statistics import OperatorStatistics
from ..pipelines.build_operators import RunNode
from ..plans.dataflow import PlanComputation
from .statements import statement_told


class GraphComputation(PlanComputation):
    """The computation of a graph. It reports statistics of each channel separately.

    An error of a statement is reported as an executor's error is: with its node, its channel and the epoch.
    """

    def watched(self, node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return statement_told(node, channel, rows)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()
