"""Where rows go before a node reads them: to where their key is.

A join's are routed by what has to be equal, a group's by what it is grouped by. What works on rows by themselves takes
them on whichever channel they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from ...operators.changes.network.network_graph import ByKey, Route
from ...planner.changes.change_nodes import (
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    GroupNode,
    JoinNode,
    OnlyOneNode,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WeighNode,
    WindowNode,
)

Operated: TypeAlias = (
    SourceNode
    | ConstantNode
    | SelectNode
    | ComputeNode
    | DifferenceNode
    | JoinNode
    | OnlyOneNode
    | WeighNode
    | GroupNode
    | TopNode
    | RegroupNode
    | WindowNode
    | RecomputeNode
)
"""Nodes that are an operator each."""


def routes_to(node: Operated) -> Sequence[Route]:
    """One for each of its inputs; a source has one, its entry."""
    match node:
        case SourceNode() | ComputeNode():
            return (None,)
        case ConstantNode():
            return ()
        case SelectNode():
            return (None,) * len(node.inputs)
        case DifferenceNode():
            return (None, None)
        case JoinNode():
            return ByKey(tuple(key.left for key in node.keys)), ByKey(tuple(key.right for key in node.keys))
        case OnlyOneNode():
            left = ByKey(tuple(range(len(node.left.schema))))
            return left, left
        case WeighNode():
            return (ByKey(tuple(range(len(node.schema)))),) * len(node.inputs)
        case GroupNode() | TopNode() | RegroupNode():
            return (ByKey(node.key),)
        case WindowNode():
            return (ByKey(tuple(range(node.keys))),)
        case RecomputeNode():
            return (ByKey(()),) * len(node.inputs)
        case _:
            assert_never(node)
