"""Finds operators that take rows back: rows that they gave in an earlier epoch are no longer in the result.

A written table keeps its rows, so a plan that writes must have no such operator above its sources.
"""

from __future__ import annotations

import enum
from typing import Final

from ...operators.changes.distinct_or_set_op import Weighing
from ...proto.errors import PlanError, Problem
from .. import ir
from .change_nodes import (
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
    OutputsNode,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
    inputs_of,
)

_GROWING: Final = frozenset(
    (Weighing.DISTINCT, Weighing.INTERSECT_ANY, Weighing.INTERSECT_EACH, Weighing.INTERSECT_ALL)
)
"""The set operations that keep a row if their inputs get more rows."""


class TakesBack(enum.Enum):
    """The cause for which an operator takes back rows that it gave, if no row of a source is deleted."""

    NEVER = "never"
    AS_ITS_INPUTS = "only if its inputs take rows back"
    ITSELF = "perhaps, whatever its inputs do"


def check_write(write: ir.Write | None, root: ChangeNode) -> None:
    """Refuses to write rows that a later epoch may take back: a table keeps its rows."""
    if write is None:
        return
    node = _taking_back(root)
    if node is not None:
        message = (
            f"a written table keeps its rows, and the relation at {node.plan_path} may take rows back that it gave in "
            "an earlier epoch: write rows that come once, such as final windows, final joins, rows on time and late "
            "rows; or leave the write out and read the changes; or run the plan per epoch"
        )
        raise PlanError(Problem(place=write.plan_path, reason="WRITE_IN_CONTINUOUS", message=message))


def _taking_back(root: ChangeNode) -> ChangeNode | None:
    """The first operator, from the root down, that may take rows back if no row of a source is deleted."""
    stack, seen = [root], set[ChangeNode]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        match _takes_back(node):
            case TakesBack.ITSELF:
                return node
            case TakesBack.AS_ITS_INPUTS:
                stack.extend(reversed(inputs_of(node)))
    return None


def _takes_back(node: ChangeNode) -> TakesBack:
    match node:
        case (
            SourceNode()
            | ConstantNode()
            | FinalWindowsNode()
            | FinalSessionsNode()
            | FinalCountsNode()
            | FinalMatchesNode()
            | FinalAsOfNode()
        ):
            return TakesBack.NEVER
        case SelectNode() | ComputeNode() | OnTimeNode() | JoinNode() | OnlyOneNode() | OutputsNode():
            return TakesBack.AS_ITS_INPUTS
        case DistinctOrSetOpNode(weighing=weighing):
            return TakesBack.AS_ITS_INPUTS if weighing in _GROWING else TakesBack.ITSELF
        case GroupNode() | RegroupNode() | TopNode() | WindowNode() | DifferenceNode() | RecomputeNode():
            return TakesBack.ITSELF
        case LoopNode() | BackNode():
            return TakesBack.ITSELF
