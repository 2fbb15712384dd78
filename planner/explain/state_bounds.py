"""The state that an operator on changes keeps, and what bounds it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Final

from ...operators.changes.group import Extreme
from ..changes.change_nodes import (
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
    SourceNode,
    TopNode,
    WindowNode,
    inputs_of,
    nodes_of,
)
from ..ir.walk import unroll

_PASSED: Final = "that the watermark has not passed"
_OPEN: Final = "of open windows"
_MATCHING: Final = "that can still match"


@dataclass(frozen=True, slots=True)
class State:
    """The kept rows or numbers, and which of them stay; no `bound` if all stay for ever."""

    keeps: str
    bound: str | None


def state_of(node: ChangeNode) -> State | None:  # noqa: C901 (a line per node)
    """The state of an operator; None if it keeps none, or only its watermark."""
    match node:
        case JoinNode(closing=None, floors=floors):
            return State("rows of both sides", None if floors is None else _PASSED)
        case JoinNode():
            return State("rows of both sides", _MATCHING)
        case FinalMatchesNode():
            return State("rows", _MATCHING)
        case FinalAsOfNode(tolerance=tolerance):
            latest = "the latest row of each key"
            return State(f"open rows and {latest}", None if tolerance is None else f"at most {tolerance:,} earlier")
        case DistinctOrSetOpNode(closing=closing, floor=floor):
            return State("different rows", _OPEN if closing is not None else _passed(floor))
        case GroupNode(closing=closing, floor=floor):
            one = not node.key and not any(isinstance(measure, Extreme) for measure in node.measures)
            kept = "numbers of groups"
            return State(kept, _OPEN if closing is not None else "of one group" if one else _passed(floor))
        case RegroupNode(floor=floor):
            return State("rows of groups", _passed(floor))
        case TopNode(floor=floor):
            return State("rows in order", _passed(floor))
        case WindowNode(floor=floor):
            return State("rows in order with their answers", _passed(floor))
        case FinalWindowsNode(input=GroupNode()):
            return None
        case FinalWindowsNode():
            return State("rows", _OPEN)
        case FinalSessionsNode():
            return State("rows", "of open sessions")
        case FinalCountsNode(keys=keys):
            return State("rows of windows that are not full", None if keys else "of one group")
        case OnlyOneNode() | RecomputeNode():
            return State("rows of all inputs", None)
        case LoopNode():
            return State("rows that came back", None)
        case _:
            return None


def _passed(floor: object) -> str | None:
    return None if floor is None else _PASSED


def unbounded(root: ChangeNode, fed: Collection[str]) -> Iterator[str]:
    """A warning for each place in the plan with operators over these sources that keep something for ever."""
    growing: dict[ChangeNode, bool] = {}

    def step(node: ChangeNode) -> Generator[ChangeNode, bool, bool]:
        """Tests whether an operator reads a source that goes on."""
        if node not in growing:
            grows = isinstance(node, SourceNode) and node.source in fed
            for child in inputs_of(node):
                grows |= yield child
            growing[node] = grows
        return growing[node]

    unroll(step, root)
    warned: dict[str, str] = {}
    for node in nodes_of(root):
        state = state_of(node)
        if state is not None and state.bound is None and growing[node] and not isinstance(node, FinalCountsNode):
            warned.setdefault(node.plan_path, state.keeps)
    for plan_path, keeps in warned.items():
        yield (
            f"{plan_path}: the task keeps {keeps} for ever, because no watermark says which of them are never needed "
            "again: group and join by a time of final windows, or of rows on time"
        )
