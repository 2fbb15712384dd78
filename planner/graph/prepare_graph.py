"""Prepares a graph: checks, types and lowers it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...proto.graph import DatasetSource, FedSource, FileSource, Graph, GraphNode
from ...proto.values import ExecutorKind, Explanation
from ..physical.pipelines import PhysicalPlan, Shape
from ..physical.sources import PlannedSource
from .explain_graph import explain
from .lower_graph import columns_of, lower
from .schemas import steps_of
from .steps import SqlStep, Step
from .stock_nodes import Schemas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """A graph that can be run. `nodes` are in order, each with its schema in `schemas`."""

    graph: Graph
    nodes: tuple[Step, ...]
    schemas: Mapping[str, pa.Schema]
    warnings: tuple[str, ...] = ()
    _lowered: list[tuple[Shape, PhysicalPlan]] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the graph's rows."""
        return self.schemas[self.graph.result or ""]

    @property
    def sources(self) -> tuple[PlannedSource, ...]:
        return tuple(
            PlannedSource(
                name=node.name,
                columns=columns_of(self.schemas[node.name]),
                static=not isinstance(node, FedSource),
                plan_paths=(node.name,),
            )
            for node in self.nodes
            if isinstance(node, FedSource | FileSource | DatasetSource)
        )

    def owned_versions(self) -> Mapping[str, str | None]:
        """None: a graph has the code itself, and names no operators."""
        return {}

    def relevant(self, shape: Shape) -> Shape:
        """The part of a shape that matters. Only statements care how sources are fed: without a statement, pipelines
        are the same for all shapes.
        """
        return shape if any(isinstance(node, SqlStep) for node in self.nodes) else {}

    def physical(self, shape: Shape, without: Container[str] = ()) -> PhysicalPlan:  # noqa: ARG002 - it has no indexes
        """The pipelines for a shape. The last result is kept: a task asks when it is made and in its first epoch,
        mostly for the same shape.
        """
        known = self._lowered[0] if self._lowered else None
        if known is None or known[0] != shape:
            known = dict(shape), lower(self.graph, self.nodes, self.schemas, shape).physical
            self._lowered[:] = [known]
        return known[1]

    def explain(self, shape: Shape, executor: ExecutorKind = ExecutorKind.LOCAL) -> Explanation:
        lowered = lower(self.graph, self.nodes, self.schemas, shape)
        return explain(self.graph, self.nodes, self.schemas, lowered, executor)


def prepare_graph(graph: Graph, nodes: Sequence[GraphNode], files: Schemas) -> PreparedGraph:
    """Prepares a graph. `nodes` are the graph's, as `ordered` gives them, and `files` has the schemas of the files that
    the graph reads. Raises `PlanError` with everything that does not fit.
    """
    steps, schemas = steps_of(nodes, files)
    return PreparedGraph(graph=graph, nodes=steps, schemas=schemas)
