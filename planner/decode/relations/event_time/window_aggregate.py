"""Decodes `tidegate.v1.WindowAggregate`.

Windows that share no row are an aggregate by the number of the row's window. Other windows are made of slices of time,
as long as the greatest common divisor of the windows' length and their distance. Above stands a projection of the
numbers to the windows' bounds. Sessions are numbered by window functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, Final

from .....proto.errors import PlanError
from .... import ir
from ....functions import bind_scalar
from ....ir import types as t
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.counting import count_wire
from ...encoding.field_shapes import AGGREGATE
from ...encoding.message_nodes import Malformed, Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope
from ..aggregate import convert_measure, old_groupings
from .session_windows import sessions
from .time_spans import TimeColumn, length, time_column, units

_NUMBER: Final = t.Integer(bits=64, nullable=False)


@dataclass(frozen=True, slots=True)
class _Spans:
    """Windows in units of the time column: window 0 begins at `offset`."""

    size: int
    slide: int
    offset: int


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
    spans = _gap(decoder, windows, time, detail) if windows.HasField("gap") else _spans(decoder, windows, time, detail)
    if spans is None:
        return poison.RELATION
    if time.nullable:
        condition = _call("is_not_null", ir.Field(index=windows.time, type=below.schema[windows.time]))
        below = ir.Filter(input=below, condition=condition, schema=below.schema, plan_path=str(plan_path))
    if isinstance(spans, int):
        return sessions(below, time, spans, computed.keys, computed.measures, str(plan_path))
    return _with_bounds(_numbered(below, time, spans, computed, str(plan_path)), time, spans)


def _gap(decoder: Decoder, windows: Any, time: TimeColumn, detail: PlanPath) -> int | None:
    for field in ("size", "slide", "offset"):
        if windows.HasField(field):
            decoder.problems.add(detail / field, "WRONG_SPAN", f"sessions have a gap alone: leave the {field} out")
            return None
    return length(decoder, windows.gap, time.type, detail / "gap")


def _spans(decoder: Decoder, windows: Any, time: TimeColumn, detail: PlanPath) -> _Spans | None:
    if not windows.HasField("size"):
        decoder.problems.add(detail / "size", "MISSING", "windows must have a size, or a gap")
        return None
    size = slide = length(decoder, windows.size, time.type, detail / "size")
    if windows.HasField("slide"):
        slide = length(decoder, windows.slide, time.type, detail / "slide")
    offset: int | None = 0
    if windows.HasField("offset"):
        offset = units(decoder, windows.offset, time.type, detail / "offset")
    if size is None or slide is None or offset is None:
        return None
    return _Spans(size, slide, offset % slide)


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


def _numbered(
    below: ir.Relation, time: TimeColumn, spans: _Spans, computed: _Computed, plan_path: str
) -> ir.Aggregate | ir.SlidingAggregate:
    """The aggregate by the number of the window."""
    keys, measures, schema = computed.keys, computed.measures, (_NUMBER, *computed.schema)
    shared = gcd(spans.size, spans.slide)
    slice_ = _call("time_slice", time.value, ir.Literal(value=shared, type=_NUMBER), time.literal(spans.offset))
    if spans.size == spans.slide:
        return ir.Aggregate(
            input=below,
            keys=(slice_, *keys),
            grouping_sets=(tuple(range(1 + len(keys))),),
            measures=measures,
            schema=schema,
            plan_path=plan_path,
        )
    return ir.SlidingAggregate(
        input=below,
        slice=slice_,
        length=spans.size // shared,
        step=spans.slide // shared,
        keys=keys,
        measures=measures,
        schema=schema,
        plan_path=plan_path,
    )


def _with_bounds(relation: ir.Aggregate | ir.SlidingAggregate, time: TimeColumn, spans: _Spans) -> ir.Project:
    number, *others = (ir.Field(index=at, type=type_) for at, type_ in enumerate(relation.schema))
    slide = ir.Literal(value=spans.slide, type=_NUMBER)
    bounds = [_call("slice_start", number, slide, time.literal(spans.offset + after)) for after in (0, spans.size)]
    expressions = (*bounds, *others)
    schema = tuple(expression.type for expression in expressions)
    return ir.Project(input=relation, expressions=expressions, schema=schema, plan_path=relation.plan_path)


def _call(name: str, *arguments: ir.Expression) -> ir.Expression:
    return bind_scalar(name, None, arguments)
