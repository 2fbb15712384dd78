"""The state that an operator on changes keeps, and what bounds it."""

from __future__ import annotations

from typing import Final

from ....operators.changes.event_time.row_watermarks import EventTime
from ....operators.changes.group import Extreme
from ....operators.changes.network.network_graph import KeptState
from ..change_nodes import (
    ChangeNode,
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
    RecomputeNode,
    RegroupNode,
    TopNode,
    WindowNode,
)

_PASSED: Final = "that the watermark has not passed"
_OPEN: Final = "of open windows"
_MATCHING: Final = "that can still match"
_ONE: Final = "of one group"
_LATEST: Final = "the latest row of each key"


def state_of_source(event_time: EventTime | None) -> KeptState:
    """The state of a source with this watermark: what a deletion is compared with."""
    ends = event_time is not None and event_time.horizon is not None
    return KeptState("a hash of each row", "that is not late for all readers" if ends else None)


def state_of(node: ChangeNode) -> KeptState | None:  # noqa: C901 (a line per node)
    """The state of an operator; None if it keeps none, or only its watermark."""
    match node:
        case JoinNode(closing=None, floors=floors):
            return KeptState("rows of both sides", None if floors is None else _PASSED)
        case JoinNode():
            return KeptState("rows of both sides", _MATCHING)
        case FinalMatchesNode():
            return KeptState("rows", _MATCHING)
        case FinalAsOfNode(tolerance=None, keys=keys):
            return KeptState(f"open rows and {_LATEST}", None if keys else _ONE)
        case FinalAsOfNode(tolerance=tolerance):
            return KeptState(f"open rows and {_LATEST}", f"at most {tolerance:,} earlier")
        case DistinctOrSetOpNode(closing=closing, floor=floor):
            return KeptState("different rows", _OPEN if closing is not None else _passed(floor))
        case GroupNode(closing=closing, floor=floor):
            one = not node.key and not any(isinstance(measure, Extreme) for measure in node.measures)
            kept = "numbers of groups"
            return KeptState(kept, _OPEN if closing is not None else _ONE if one else _passed(floor))
        case RegroupNode(floor=floor):
            return KeptState("rows of groups", _passed(floor))
        case TopNode(floor=floor):
            return KeptState("rows in order", _passed(floor))
        case WindowNode(floor=floor):
            return KeptState("rows in order with their answers", _passed(floor))
        case FinalWindowsNode(states=states):
            own = "slices" if isinstance(node.input, GroupNode) else "rows"
            if states is not None:
                own = "slices and running results" if states.sql is None else "rows, slices and running results"
            return KeptState(own, _OPEN)
        case FinalSessionsNode():
            return KeptState("rows and last times", "of open sessions")
        case FinalCountsNode(keys=keys):
            return KeptState("rows of windows that are not full", None if keys else _ONE)
        case OnlyOneNode() | RecomputeNode():
            return KeptState("rows of all inputs", None)
        case LoopNode():
            return KeptState("rows that came back", None)
        case _:
            return None


def _passed(floor: object) -> str | None:
    return None if floor is None else _PASSED
