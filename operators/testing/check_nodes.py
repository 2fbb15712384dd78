"""Nodes of a graph as operators under test: your executors and functions are put through the same checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from ...proto.graph import ExecutorNode, GraphNode, MapNode
from ..core.operator import Operator
from ..user.batch_function import BatchFunctionOperator, mapped_schema
from ..user.user import User, UserStream
from .running import Epoch


@runtime_checkable
class OfGraph(Protocol):
    """The handle that a graph's builder returns for a node that it has added."""

    @property
    def node(self) -> GraphNode: ...


Checked: TypeAlias = Callable[[], Operator] | OfGraph


def operators_of(checked: Checked, epoch: Epoch) -> Callable[[], Operator]:
    """The function that makes the operator. A node's operator gets batches as they come, so that no cut is hidden from
    it.

    `epoch` has the tables of an epoch, whose schemas are those of the node's streams.
    """
    if not isinstance(checked, OfGraph):
        return checked
    node = checked.node
    match node:
        case ExecutorNode():
            return lambda: _user(node, epoch[0].schema)
        case MapNode():
            return lambda: _function(node, epoch[0].schema)
        case _:
            raise ValueError(
                f"node {node.name!r} runs no user code, so there is nothing to check; Tidegate's tests check the "
                "built-in nodes"
            )


def _user(node: ExecutorNode, first: pa.Schema) -> User:
    streams = [UserStream(name=stream.name, after=stream.after) for stream in node.inputs]
    return User(node.name, streams, schema=node.schema or first, make=node.make, recut=False)


def _function(node: MapNode, first: pa.Schema) -> BatchFunctionOperator:
    schema = node.schema or mapped_schema(node, first)
    return BatchFunctionOperator(node.name, node.function, schema=schema, recut=False)
