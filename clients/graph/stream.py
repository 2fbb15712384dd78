"""The nodes of a graph, as the builder of a graph sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..proto.errors import TransientError
from ..proto.graph import BatchFunction, GraphNode, Raised

if TYPE_CHECKING:
    from .builder import TaskGraph


class _OfGraph:
    """A node that has been added to a graph."""

    def __init__(self, graph: TaskGraph, name: str) -> None:
        self.graph = graph
        self.name = name

    @property
    def node(self) -> GraphNode:
        """The node, as a value."""
        return next(node for node in self.graph.value.nodes if node.name == self.name)

    def __repr__(self) -> str:
        return f"<tidegate.graph.{type(self).__name__} {self.name!r}>"


class Stream(_OfGraph):
    """The rows of a node, for other nodes to read. Made by a `TaskGraph`.

    >>> graph = tidegate.TaskGraph()
    >>> graph.read_arrow(monday, name="sales")
    <tidegate.graph.Stream 'sales'>
    """

    def map(
        self,
        function: BatchFunction,
        *,
        schema: pa.Schema | None = None,
        name: str | None = None,
        retries: int = 0,
        transient: Raised = TransientError,
    ) -> Stream:
        """The rows that a function returns for each batch: Arrow data, several pieces of it, or None for no rows.

        The result for a row must not depend on the rows beside it: only a strict task promises where batches are cut.
        The default schema is that of the function's result for an empty batch. `retries` and `transient` are those of
        `TaskGraph.node`.

        >>> graph = tidegate.TaskGraph()
        >>> teas = graph.read_arrow(monday).map(lambda batch: batch.filter(pc.equal(batch["item"], "tea")))
        >>> result = graph.collect(teas)
        >>> graph.run().rows
        2
        """
        return self.graph.add_map(self, function, schema, name, retries, transient)


class Result(_OfGraph):
    """The node that a graph ends in.

    >>> graph = tidegate.TaskGraph()
    >>> graph.collect(graph.read_arrow(monday, name="sales"))
    <tidegate.graph.Result 'sales'>
    """
