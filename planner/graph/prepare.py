"""A graph that can be run: checked, typed, lowered."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...proto.graph import DatasetSource, FedSource, FileSource, Graph, GraphNode
from ...proto.values import Explanation
from ..pipelines import PhysicalPlan, Shape
from ..sources import PlannedSource
from .explain import explain
from .lower import Lowered, columns_of, lower
from .schemas import Schemas, schemas_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """`nodes` are in order, each with its schema in `schemas`. Pipelines are the same for all shapes of the sources."""

    graph: Graph
    nodes: tuple[GraphNode, ...]
    schemas: Mapping[str, pa.Schema]
    lowered: Lowered
    warnings: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Of the graph's rows."""
        return self.schemas[self.graph.result or ""]

    @property
    def sources(self) -> tuple[PlannedSource, ...]:
        return tuple(
            PlannedSource(
                name=node.name,
                columns=columns_of(self.schemas[node.name]),
                static=not isinstance(node, FedSource),
                places=(node.name,),
            )
            for node in self.nodes
            if isinstance(node, FedSource | FileSource | DatasetSource)
        )

    def physical(self, shape: Shape, without: Container[str] = ()) -> PhysicalPlan:  # noqa: ARG002 - the same for all
        return self.lowered.physical

    def explain(self) -> Explanation:
        return explain(self.graph, self.nodes, self.schemas, self.lowered)


def prepare_graph(graph: Graph, nodes: Sequence[GraphNode], files: Schemas) -> PreparedGraph:
    """`nodes` are the graph's, as `ordered` gives them, and `files` has the schemas of the files that it reads. Raises
    `PlanError` with all that does not fit.
    """
    schemas = schemas_of(nodes, files)
    return PreparedGraph(graph=graph, nodes=tuple(nodes), schemas=schemas, lowered=lower(graph, nodes, schemas))
