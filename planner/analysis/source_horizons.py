"""The time after which no reader of a source needs a row: final windows let rows go, all else keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ...operators.changes.event_time.row_watermarks import EventTime
from ...operators.changes.event_time.window_closing import CalendarClosing, CountClosing, WindowClosing
from .. import ir
from ..ir import tree
from ..ir.visit import is_column, parts, relations, subqueries_of

_Read: TypeAlias = tuple[int, int] | None
"""The time column of the final windows that read a relation's rows, and how long after it they need a row. None if
something else reads them.
"""


def horizons(plan: ir.Plan) -> Mapping[str, int]:
    """For each source that final windows alone read, by the time of its watermark: the ticks after which a row is late
    for all of them.
    """
    longest: dict[str, int] = {}
    unbounded: set[str] = set()
    seen: set[tuple[ir.Relation, _Read]] = set()
    stack: list[tuple[ir.Relation, _Read]] = [(plan.root, None)]
    stack.extend((plan.shared[side.ordinal], None) for side in plan.side_tables)
    while stack:
        relation, read = stack.pop()
        if (relation, read) in seen:
            continue
        seen.add((relation, read))
        if isinstance(relation, ir.Shared):
            stack.append((plan.shared[relation.ordinal], read))
        elif not isinstance(relation, ir.Read | ir.LocalFiles):
            stack.extend(_below(relation, read))
            stack.extend((inner, None) for inner in _subqueried(relation))
        elif read is not None and relation.watermark is not None and relation.watermark.column == read[0]:
            longest[relation.source] = max(read[1], longest.get(relation.source, 0))
        else:
            unbounded.add(relation.source)
    return {source: ticks for source, ticks in longest.items() if source not in unbounded}


def warnings(plan: ir.Plan, ends: Mapping[str, EventTime | None]) -> Iterator[str]:
    """Warnings of final windows that do not end by themselves, or whose state has no end, and of sources beside them.
    `ends` has the declared watermark of each fed source.
    """
    final: dict[str, None] = {}
    for windows in (part for root in (plan.root, *plan.shared) for part in relations(root)):
        if not isinstance(windows, ir.OfTime):
            continue
        sources = _sources(windows, plan.shared)
        final |= sources
        if isinstance(windows, ir.TimeWindows) and isinstance(windows.closing, CountClosing) and windows.keys:
            yield (
                f"{windows.plan_path}: the task keeps the rows of each group of keys whose window is not full until "
                "the source ends: this state grows with the number of groups"
            )
        for name in sources:
            if name in ends and ends[name] is None:
                yield (
                    f"{windows.plan_path}: {_called(windows)} end by the least watermark of their sources, and no "
                    f"watermark is declared for source {name!r}: they end only by watermarks of its splits, or when it "
                    "ends. The task keeps a hash of each of its rows for ever"
                )
    for name in final:
        event_time = ends.get(name)
        if event_time is not None and event_time.horizon is None:
            yield (
                f"source {name!r}: the task keeps a hash of each of its rows for ever, because not only final windows "
                "by the time of its watermark read it"
            )


def _called(relation: ir.OfTime) -> str:
    return "rows of final joins" if isinstance(relation, ir.IntervalJoin | ir.AsOfJoin) else "final windows"


def _sources(relation: ir.Relation, shared: Sequence[ir.Relation]) -> dict[str, None]:
    """The sources that a relation reads, in order."""
    sources: dict[str, None] = {}
    seen: set[int] = set()
    stack = [relation]
    while stack:
        for part in relations(stack.pop()):
            if isinstance(part, ir.Read | ir.LocalFiles):
                sources[part.source] = None
            elif isinstance(part, ir.Shared) and part.ordinal not in seen:
                seen.add(part.ordinal)
                stack.append(shared[part.ordinal])
    return sources


def _below(relation: ir.Relation, read: _Read) -> list[tuple[ir.Relation, _Read]]:
    """The inputs, and what reads the rows of each."""
    if isinstance(relation, ir.IntervalJoin | ir.AsOfJoin):
        width, closing = len(relation.left.schema), relation.closing
        times = [_only_field(mark) for mark in relation.marks]
        left, right = (None if at is None else (at, closing.lag + 1) for at in times)
        return [(relation.left, left), (relation.right, right and (right[0] - width, right[1]))]
    below = _of_inputs(relation, read)
    return [(child, below) for child in tree.inputs(relation)]


def _only_field(mark: ir.Expression) -> int | None:
    """The only column that a mark reads."""
    fields = {part.index for part in parts(mark) if isinstance(part, ir.Field)}
    return min(fields) if len(fields) == 1 else None


def _of_inputs(relation: ir.Relation, read: _Read) -> _Read:
    """The readers of the rows of all inputs."""
    match relation:
        case ir.TimeWindows() | ir.LateRows():
            time = _only_field(relation.mark)
            return None if time is None else (time, _horizon(relation))
        case ir.Filter() | ir.Set(operation=ir.SetOperation.UNION_ALL):
            return read
        case ir.Project() if read is not None:
            column = relation.expressions[read[0]]
            return (column.index, read[1]) if is_column(column) else None
        case _:
            return None


def _horizon(relation: ir.TimeWindows | ir.LateRows) -> int:
    closing = relation.closing
    match closing:
        case WindowClosing():
            after = closing.size
        case CalendarClosing():
            after = closing.most
        case _:
            after = 1
    return after + closing.lateness


def _subqueried(relation: ir.Relation) -> list[ir.Relation]:
    return [subquery.relation for subquery in subqueries_of(relation)]
