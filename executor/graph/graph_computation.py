"""A prepared graph as a computation. Its pipelines run as those of plans do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import pyarrow as pa

from ...planner.graph.prepare_graph import PreparedGraph
from ...planner.physical.pipelines import PhysicalNode
from ...proto.errors import NodeError
from ...proto.graph import ExecutorNode, MapNode
from ...proto.statistics import OperatorStatistics
from ...proto.values import TaskOptions
from ..pipelines.build_operators import RunNode
from ..pipelines.channel_run import NO_RETRIES, Retries, names_of
from ..plans.dataflow import PlanComputation, Resources
from .statements import with_node_named


class GraphComputation(PlanComputation):
    """The computation of a graph. It reports statistics of each channel separately.

    An error of a statement is reported as an executor's error is: with its node, its channel and the epoch. A channel
    is made anew as often as the option says, or the node with most retries among those that the channel runs.
    """

    def __init__(self, prepared: PreparedGraph, options: TaskOptions, **resources: Unpack[Resources]) -> None:
        self._code = {node.name: node for node in prepared.graph.nodes if isinstance(node, ExecutorNode | MapNode)}
        self._retries = any((options.retries, *(node.retries for node in self._code.values())))
        super().__init__(prepared, options, **resources)

    def retries(self, root: PhysicalNode) -> Retries:
        if not self._retries:
            return NO_RETRIES
        code = {name: self._code[name] for name in names_of(root) & self._code.keys()}

        def transient(error: NodeError) -> bool:
            return error.node in code and isinstance(error.__cause__, code[error.node].transient)

        return Retries(max((self.options.retries, *(node.retries for node in code.values()))), transient)

    def watched(self, node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return with_node_named(node, channel, rows)

    def operators(self) -> tuple[OperatorStatistics, ...]:
        return self.meters.by_channel()
