"""Decodes `tidegate.v1.WindowAggregate`.

Below the windows stands a filter of rows with a time, above them a projection of their numbers to bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .....operators.changes.event_time.window_closing import (
    AnyClosing,
    CalendarClosing,
    CountClosing,
    SessionClosing,
    SlicedClosing,
)
from .....proto.errors import PlanError
from .... import ir
from ....functions.added_calls import call
from ....ir.building import INT64, columns, filtered, int64, project
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.counting import count_wire
from ...encoding.field_shapes import AGGREGATE
from ...encoding.message_nodes import Malformed, Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope
from ..aggregate import convert_measure, old_groupings
from .calendars import calendar_start, ends_of
from .time_columns import TimeColumn
from .time_spans import closing_of, mark_of, span_from, time_column


@dataclass(frozen=True, slots=True)
class _Computed:
    keys: tuple[ir.Expression, ...]
    measures: tuple[ir.Measure, ...]

    @property
    def schema(self) -> ir.Schema:
        return tuple(part.type for part in (*self.keys, *self.measures))


def convert_window_aggregate(
    decoder: Decoder, windows: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    scope = decoder.scope([below], message, outer)
    detail = plan_path / "detail"
    computed = yield from _aggregate(decoder, windows.aggregate, detail / "aggregate", scope)
    if below is poison.RELATION or computed is None:
        return poison.RELATION
    time = time_column(decoder, below.schema, windows.time, detail / "time")
    if time is None:
        return poison.RELATION
    lateness = span_from(decoder, windows.final, "lateness", time.type, detail / "final")
    closing = None if lateness is None else closing_of(decoder, windows, lateness, time, detail)
    if closing is None or not _may_be_at_once(decoder, windows, computed, closing, detail):
        return poison.RELATION
    numbers = 2 if isinstance(closing, SessionClosing | CountClosing) else 1
    relation = ir.TimeWindows(
        input=with_time(below, windows.time, time, plan_path),
        mark=mark_of(time, closing),
        ends=ends_of(time, closing),
        keys=computed.keys,
        measures=computed.measures,
        closing=closing,
        final=windows.HasField("final"),
        at_once=windows.final.at_once,
        schema=(*[INT64] * numbers, *computed.schema),
        plan_path=str(plan_path),
    )
    return _with_bounds(relation, time)


def _may_be_at_once(
    decoder: Decoder, windows: Any, computed: _Computed, closing: AnyClosing, plan_path: PlanPath
) -> bool:
    """Reports windows that cannot come with their first row."""
    if not windows.final.at_once:
        return True
    if computed.measures or isinstance(closing, SessionClosing | CountClosing) or closing.length > closing.step:
        problem = (
            "only windows without measures that follow each other come at once, because the first row of others does "
            "not say what they are: leave the measures and the slide out, or `at_once`"
        )
        decoder.problems.add(plan_path / "final" / "at_once", "AT_ONCE", problem)
        return False
    return True


def with_time(below: ir.Relation, column: int, time: TimeColumn, plan_path: PlanPath) -> ir.Relation:
    """The rows that have a time."""
    if not time.nullable:
        return below
    condition = call("is_not_null", ir.Field(index=column, type=below.schema[column]))
    return filtered(below, condition, str(plan_path))


def _aggregate(decoder: Decoder, data: bytes, plan_path: PlanPath, scope: Scope) -> Steps[_Computed | None]:
    """The keys and measures; None, once reported, if something is wrong with them."""
    problems = len(decoder.problems)
    try:
        count_wire(data, AGGREGATE, decoder.grafted)
        aggregate = decoder.nodes.take(decoder.nodes.graft(AGGREGATE, data))
    except Malformed as error:
        decoder.problems.add(plan_path, "MALFORMED", str(error))
        return None
    except PlanError as error:
        for problem in error.problems:
            decoder.problems.add(plan_path, problem.reason, problem.message)
        return None
    if aggregate.input:
        decoder.problems.add(
            plan_path / "input", "MISPLACED_INPUT", "windows aggregate the rows of their own input: leave this one out"
        )
    decoder.check_extension(aggregate, plan_path)
    if len(aggregate.groupings) > 1:
        decoder.problems.add(plan_path / "groupings", "UNSUPPORTED_GROUPING", "windows have one grouping set")
        return None
    if aggregate.grouping_expressions:
        keys = yield from decoder.expressions(aggregate.grouping_expressions, plan_path, "grouping_expressions", scope)
    else:
        keys, _ = yield from old_groupings(decoder, aggregate, plan_path, scope)
    measures = []
    for index, measure in enumerate(aggregate.measures):
        measures.append((yield from convert_measure(decoder, measure, plan_path.at("measures", index), scope)))
    if len(decoder.problems) > problems or any(is_unknown(key.type) for key in keys):
        return None
    return _Computed(keys, tuple(measure for measure in measures if measure is not None))


def _with_bounds(relation: ir.TimeWindows, time: TimeColumn) -> ir.Project:
    closing = relation.closing
    if isinstance(closing, SessionClosing | CountClosing):
        first, last, *others = columns(relation.schema)
        after_last = closing.gap if isinstance(closing, SessionClosing) else 0
        bounds = [_start(first, 1, time, 0), _start(last, 1, time, after_last)]
    else:
        number, *others = columns(relation.schema)
        bounds = [_window_start(number, closing, time, after) for after in (0, closing.size)]
    return project(relation, (*bounds, *others))


def _window_start(number: ir.Field, closing: SlicedClosing, time: TimeColumn, after: int) -> ir.Expression:
    """The moment so many units, or ticks, after the start of a window."""
    if isinstance(closing, CalendarClosing):
        return calendar_start(number, closing, time, after)
    return _start(number, closing.slide, time, closing.offset + after)


def _start(number: ir.Field, size: int, time: TimeColumn, origin: int) -> ir.Expression:
    return call("slice_start", number, int64(size), time.literal(origin))
