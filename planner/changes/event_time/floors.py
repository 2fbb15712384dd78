"""Finds the state that a watermark bounds.

Behind an operator that takes late rows out, or that gives each window once, no row of a later epoch has a time before
the watermark, less a lag; nor has its deletion. The same holds for columns that rise with the time, such as its hour,
and for keys of aggregates and joins by such columns. So groups and rows with lesser values are never touched again, and
their operator can let them go.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ....operators.changes.event_time.interval_closing import IntervalClosing
from ....operators.changes.event_time.window_closing import CalendarClosing, WindowClosing
from ... import ir
from ...functions.added_calls import call
from ...ir.building import INT64, int64
from ...ir.visit import parts
from ...ir.walk import unroll
from ..change_nodes import (
    ChangeNode,
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    DistinctOrSetOpNode,
    FinalAsOfNode,
    FinalMatchesNode,
    FinalSessionsNode,
    FinalWindowsNode,
    FloorSql,
    GroupNode,
    JoinNode,
    OnlyOneNode,
    OnTimeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
    inputs_of,
    nodes_of,
    with_inputs,
)
from .lows import NO_VALUES, Low, Term, least, low_number

_Lows: TypeAlias = Mapping[int, Low]
"""The least values of columns that have one, by their positions."""

_ORIGINS: Final = (OnTimeNode, FinalWindowsNode, FinalSessionsNode)


@dataclass(frozen=True, slots=True)
class _Found:
    """An operator over inputs whose state is bounded, the sources that it reads, and the least values of its
    columns.
    """

    node: ChangeNode
    sources: frozenset[str]
    lows: _Lows


def with_floors(root: ChangeNode) -> ChangeNode:
    """The same operators, with the floors of those whose state has one."""
    if not any(isinstance(node, _ORIGINS) for node in nodes_of(root)):
        return root
    finding = _Finding()
    unroll(finding.step, root)
    return finding.known[root].node


@dataclass(slots=True)
class _Finding:
    known: dict[ChangeNode, _Found] = field(default_factory=dict)

    def step(self, node: ChangeNode) -> Generator[ChangeNode, ChangeNode, ChangeNode]:
        if node not in self.known:
            for child in inputs_of(node):  # noqa: UP028 - a tuple's iterator takes no answers
                yield child
            inputs = [self.known[child] for child in inputs_of(node)]
            above = with_inputs(node, [child.node for child in inputs])
            own = frozenset([node.source]) if isinstance(node, SourceNode) else frozenset()
            sources = own.union(*(child.sources for child in inputs))
            bounded, lows = _bounded(above, sources, [child.lows for child in inputs])
            self.known[node] = _Found(bounded, sources, lows)
        return node


def _bounded(node: ChangeNode, sources: frozenset[str], lows: Sequence[_Lows]) -> tuple[ChangeNode, _Lows]:
    """The operator with its floors, and the least values of its columns."""
    match node:
        case JoinNode(closing=None):
            return _joined(node, *lows)
        case DistinctOrSetOpNode(closing=None):
            every = _of_all(lows)
            return replace(node, floor=_floor(node, every)), every
        case GroupNode(closing=None) | RegroupNode():
            keys = _of_keys(node.key, lows[0])
            return replace(node, floor=_floor(node, keys)), keys
        case TopNode():
            keys = _of_keys(node.key, lows[0])
            behind = {len(node.key) + column: keys[at] for at, column in enumerate(node.key) if at in keys}
            return replace(node, floor=_floor(node, keys)), {**keys, **behind}
        case WindowNode():
            keys = {at: low for at, low in lows[0].items() if at < node.keys}
            return replace(node, floor=_floor(node, keys)), keys
        case _:
            return node, _passed_on(node, sources, lows)


def _passed_on(  # noqa: C901 (a line per node)
    node: ChangeNode, sources: frozenset[str], lows: Sequence[_Lows]
) -> _Lows:
    """The least values of the columns of an operator whose state, if it has any, is bounded in other ways."""
    match node:
        case ConstantNode():
            return dict.fromkeys(range(len(node.schema)), NO_VALUES)
        case SelectNode():
            return _of_all([{at: _at(side, column) for at, column in enumerate(node.columns)} for side in lows])
        case ComputeNode():
            known = ((at, rising) for at, rising in node.rising.items() if rising.column in lows[0])
            return _there({at: lows[0][rising.column].put_into(rising) for at, rising in known})
        case OnTimeNode():
            return _on_time(node, sources, lows[0])
        case DifferenceNode():
            return _of_all(lows)
        case OnlyOneNode():
            return lows[0]
        case JoinNode(closing=IntervalClosing() as closing):
            left, right = (_near(side, closing, node.plan_path) for side in lows)
            return _output(node, left, right)
        case FinalMatchesNode() | FinalAsOfNode():
            rows = _near(lows[0], node.closing, node.plan_path)
            return {at - 1: low for at, low in rows.items() if at}
        case GroupNode():
            return _of_keys(node.key, lows[0])
        case DistinctOrSetOpNode(closing=WindowClosing() | CalendarClosing() as closing):
            return {**_of_all(lows), 0: low_number(closing, sources)}
        case FinalWindowsNode():
            return {0: low_number(node.closing, sources)}
        case FinalSessionsNode():
            last = call("subtract", ir.Field(index=0, type=INT64), int64(node.closing.gap))
            return {1: Low(sources=sources, ticks=node.closing.ticks, terms=(_tick(last),))}
        case _:
            return {}


def _tick(expression: ir.Expression) -> Term:
    return Term(expression=expression, time=INT64, behind=0)


def _at(lows: _Lows, column: int | None) -> Low | None:
    return NO_VALUES if column is None else lows.get(column)


def _there(lows: Mapping[int, Low | None]) -> _Lows:
    return {at: low for at, low in lows.items() if low is not None}


def _of_keys(key: Sequence[int], below: _Lows) -> _Lows:
    """The least values of an operator's first columns, which are these columns of its input."""
    return _there({at: below.get(column) for at, column in enumerate(key)})


def _of_all(sides: Sequence[Mapping[int, Low | None]]) -> _Lows:
    """The least values of columns that all of these inputs have."""
    return _there({at: least(side.get(at) for side in sides) for at in sides[0]})


def _on_time(node: OnTimeNode, sources: frozenset[str], below: _Lows) -> _Lows:
    """The least values of columns that rise with the time by which rows are on time."""
    lows = {out: below[at] for out, at in enumerate(node.output) if at in below}
    compute = node.input
    mark = compute.rising.get(0) if isinstance(compute, ComputeNode) else None
    if node.late or mark is None or not isinstance(compute, ComputeNode):
        return lows
    closing = node.closing
    behind = closing.lateness if isinstance(closing, IntervalClosing) else closing.lag
    time = next(part.type for part in parts(mark.expression) if isinstance(part, ir.Field))
    moment = Term(expression=ir.Field(index=0, type=time), time=time, behind=behind)
    low = Low(sources=sources, ticks=closing.ticks, terms=(moment,), judged=node.plan_path)
    for out, at in enumerate(node.output):
        rising = compute.rising.get(at)
        if rising is not None and rising.column == mark.column:
            own = low.put_into(rising)
            if own is not None:
                lows[out] = own
    return lows


def _near(lows: _Lows, closing: IntervalClosing, plan_path: str) -> _Lows:
    """The least values behind a final join, which takes the late rows of both sides out. Its watermark is behind that
    of its inputs by all that a row's match can be earlier.
    """
    return {at: low.nearer(closing.lateness) for at, low in lows.items() if low.judged == plan_path}


def _joined(node: JoinNode, left: _Lows, right: _Lows) -> tuple[JoinNode, _Lows]:
    """A join by keys that have a least value. Other columns have none: an early row gets a new match."""
    equal = [(key, least((left.get(key.left), right.get(key.right)))) for key in node.keys]
    known = [(key, low) for key, low in equal if low is not None]
    for key, low in known:
        mine = low.floor(key.left, node.left.schema.field(key.left).type, node.plan_path)
        theirs = low.floor(key.right, node.right.schema.field(key.right).type, node.plan_path)
        if mine is not None and theirs is not None:
            node = replace(node, floors=(mine, theirs))
            break
    return node, _output(node, {key.left: low for key, low in known}, {key.right: low for key, low in known})


def _output(node: JoinNode, left: _Lows, right: _Lows) -> _Lows:
    width = len(node.left.schema)
    both = {**left, **{width + at: low for at, low in right.items()}}
    return {out: both[at] for out, at in enumerate(node.output) if at in both}


def _floor(node: ChangeNode, lows: _Lows) -> FloorSql | None:
    """The first floor of the operator's columns that has one."""
    floors = (low.floor(at, node.schema.field(at).type, node.plan_path) for at, low in sorted(lows.items()))
    return next((floor for floor in floors if floor is not None), None)
