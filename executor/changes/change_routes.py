"""Routes of rows to the nodes that read them, by key.

A join's rows are routed by the columns that must be equal, a group's by the grouping columns. A node that works on
single rows takes them on the channel where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ...operators.changes.event_time.window_closing import CalendarClosing, WindowClosing
from ...operators.changes.network.network_graph import ByKey, Route
from ...planner.changes.change_nodes import (
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
    OnlyOneNode,
    OnTimeNode,
    Operated,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
)


def routes_to(node: Operated) -> Sequence[Route]:  # noqa: C901 (a line per node)
    """The route of each input of the node. A source has one, its entry."""
    match node:
        case SourceNode() | ComputeNode() | OnTimeNode(beside=None):
            return (None,)
        case OnTimeNode():
            return (None, None)
        case ConstantNode():
            return ()
        case SelectNode():
            return (None,) * len(node.inputs)
        case DifferenceNode():
            return (None, None)
        case JoinNode() | FinalAsOfNode():
            return ByKey(tuple(key.left for key in node.keys)), ByKey(tuple(key.right for key in node.keys))
        case OnlyOneNode():
            left = ByKey(tuple(range(len(node.left.schema))))
            return left, left
        case DistinctOrSetOpNode():
            return (ByKey(tuple(range(len(node.schema)))),) * len(node.inputs)
        case GroupNode(closing=WindowClosing() | CalendarClosing()):
            return (ByKey(node.key[1:]),)
        case GroupNode() | TopNode() | RegroupNode():
            return (ByKey(node.key),)
        case WindowNode():
            return (ByKey(tuple(range(node.keys))),)
        case FinalWindowsNode(input=GroupNode()):
            return (None,)
        case FinalWindowsNode() | FinalSessionsNode() | FinalCountsNode():
            return (ByKey(tuple(range(1, 1 + node.keys))),)
        case FinalMatchesNode():
            return (ByKey(tuple(range(len(node.rows.schema)))),) * 2
        case RecomputeNode():
            return (ByKey(()),) * len(node.inputs)
        case _:
            assert_never(node)
