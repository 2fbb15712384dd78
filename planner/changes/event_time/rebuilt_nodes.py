"""Operators over other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..change_nodes import (
    BackNode,
    ChangeNode,
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    DistinctOrSetOpNode,
    FinalAsOfNode,
    FinalCountsNode,
    FinalMatchesNode,
    FinalSessionsNode,
    FinalWindowsNode,
    GroupNode,
    JoinNode,
    LoopNode,
    OnlyOneNode,
    OnTimeNode,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
    inputs_of,
)


def with_inputs(node: ChangeNode, inputs: Sequence[ChangeNode]) -> ChangeNode:
    """The node over other inputs, in the order of `inputs_of`."""
    if all(new is old for new, old in zip(inputs, inputs_of(node), strict=True)):
        return node
    match node:
        case SourceNode() | ConstantNode() | BackNode():
            return node
        case SelectNode() | DistinctOrSetOpNode() | RecomputeNode():
            return replace(node, inputs=tuple(inputs))
        case ComputeNode() | GroupNode() | TopNode() | RegroupNode() | WindowNode():
            return replace(node, input=inputs[0])
        case FinalWindowsNode() | FinalSessionsNode() | FinalCountsNode():
            return replace(node, input=inputs[0])
        case OnTimeNode():
            return replace(node, input=inputs[0], beside=None if node.beside is None else inputs[1])
        case FinalMatchesNode():
            return replace(node, rows=inputs[0], pairs=inputs[1])
        case DifferenceNode() | JoinNode() | FinalAsOfNode():
            return replace(node, left=inputs[0], right=inputs[1])
        case OnlyOneNode():
            return replace(node, pairs=inputs[0], left=inputs[1])
        case LoopNode():
            return replace(node, body=inputs[0], entering=None if node.entering is None else inputs[1])
