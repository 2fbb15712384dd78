"""An aggregate function in two halves: states of some of the rows, and the value from the states of all rows.

A function's template calls DuckDB's aggregates. Each of these aggregates that can be put together from parts gets a
state column; the template is then rendered once more over the states put together. So a function has the same meaning
in halves as whole, its checks for overflow included: the checks look at the total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...proto.errors import PlanError
from .. import ir
from ..ir import types as t
from ..ir.arrow_types import sql_type
from . import expression_writer as expressions
from .aggregate_calls import aggregate_call

_COUNT: Final = t.Integer(bits=64)
_DOUBLE: Final = t.Float(bits=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state column: the aggregate that makes it from rows, its type, and the aggregate that joins several states
    (`{0}` the column, `{1}` the window it is joined over, if there is one). `own` is the column in the type that
    DuckDB's aggregate has, as templates expect it.
    """

    function: str
    type: t.Type
    joined: str
    own: str = "{0}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The states of one of DuckDB's aggregates, and the aggregate's value from the joined states (`{0}`, `{1}`)."""

    states: Callable[[t.Type | None], Sequence[State] | None]
    value: str


def _sum(type_: t.Type | None) -> Sequence[State] | None:
    """The state of a sum: for integers without bound (as many digits as Arrow can carry), for floats a double."""
    match type_:
        case t.Integer():
            digits = t.Decimal(precision=38, scale=0)
            own = "CAST({0} AS HUGEINT)"
            return [State(function="sum", type=digits, joined="CAST(sum({0}){1} AS HUGEINT)", own=own)]
        case t.Decimal(scale=scale):
            return [State(function="sum", type=t.Decimal(precision=38, scale=scale), joined="sum({0}){1}")]
        case t.Float():
            return [State(function="sum", type=_DOUBLE, joined="sum({0}){1}")]
        case _:
            return None


def _count(_: t.Type | None) -> Sequence[State]:
    return [State(function="count", type=_COUNT, joined="coalesce(CAST(sum({0}){1} AS BIGINT), 0)")]


def _average(type_: t.Type | None) -> Sequence[State] | None:
    return [*(_sum(type_) or ()), *_count(type_)] if isinstance(type_, t.Float) else None


def _same(function: str) -> Callable[[t.Type | None], Sequence[State] | None]:
    def states(type_: t.Type | None) -> Sequence[State] | None:
        return (
            None if type_ is None else [State(function=function, type=t.nullable(type_), joined=function + "({0}){1}")]
        )

    return states


_PARTS: Final[Mapping[str, _Parts]] = {
    "sum": _Parts(states=_sum, value="{0}"),
    "count": _Parts(states=_count, value="{0}"),
    "avg": _Parts(states=_average, value="({0} / nullif({1}, 0))"),
    **{
        name: _Parts(states=_same(name), value="{0}")
        for name in ("min", "max", "any_value", "first", "bool_and", "bool_or")
    },
}

#: Functions whose templates look at their arguments only through DuckDB's aggregates.
_HALVED: Final = frozenset({"sum", "sum0", "avg", "avg_cut", "min", "max", "count", "any_value", "bool_and", "bool_or"})

_Use: TypeAlias = tuple[str, tuple[str, ...]]


def states_of(measure: ir.Measure) -> Sequence[State] | None:
    """The state columns of a measure; None if the measure has to see all of a group's rows at once."""
    if measure.distinct or measure.sorts or measure.function.name not in _HALVED:
        return None
    states: list[State] = []
    try:
        uses = _uses(measure, [argument if isinstance(argument, str) else "x" for argument in measure.arguments])
    except PlanError:
        return None  # rendering reports the error
    for name, _ in uses:
        parts = _PARTS.get(name)
        own = parts.states(_argument_type(measure)) if parts else None
        if own is None:
            return None
        states.extend(own)
    return states


def render_states(measure: ir.Measure, scope: expressions.Scope) -> list[str]:
    """The measure's state columns, for the SELECT list of the query that groups the rows."""
    condition = expressions.guarded(measure.condition, scope) if measure.condition else None
    columns = []
    for name, arguments in _uses(measure, expressions.render_arguments(measure.arguments, scope)):
        for state in _PARTS[name].states(_argument_type(measure)) or ():
            column = aggregate_call(state.function, arguments, condition)
            columns.append(f"CAST({column} AS {sql_type(state.type)})")
    return columns


def render_total(measure: ir.Measure, columns: Sequence[str], over: str = "") -> str:
    """The measure from its state columns, for the SELECT list of the query that groups the states, or joins them `over`
    a window.
    """
    left = iter(columns)
    values: dict[_Use, str] = {}

    def total(name: str, *arguments: str) -> str:
        if (name, arguments) not in values:
            parts = _PARTS[name]
            joined = [state.joined.format(next(left), over) for state in parts.states(_argument_type(measure)) or ()]
            values[name, arguments] = parts.value.format(*joined)
        return values[name, arguments]

    operands = [argument if isinstance(argument, str) else f"x{at}" for at, argument in enumerate(measure.arguments)]
    return expressions.applied(measure, operands, total)


def render_value(measure: ir.Measure, columns: Sequence[str]) -> str:
    """The measure from columns of states that are joined already."""
    left = iter(columns)
    values: dict[_Use, str] = {}

    def value(name: str, *arguments: str) -> str:
        if (name, arguments) not in values:
            parts = _PARTS[name]
            joined = [state.own.format(next(left)) for state in parts.states(_argument_type(measure)) or ()]
            values[name, arguments] = parts.value.format(*joined)
        return values[name, arguments]

    operands = [argument if isinstance(argument, str) else f"x{at}" for at, argument in enumerate(measure.arguments)]
    return expressions.applied(measure, operands, value)


def _uses(measure: ir.Measure, arguments: Sequence[str]) -> list[_Use]:
    """The aggregates that the function's template calls, each once."""
    uses: dict[_Use, None] = {}

    def note(name: str, *operands: str) -> str:
        uses[name, operands] = None
        return "NULL"

    expressions.applied(measure, arguments, note)
    return list(uses)


def _argument_type(measure: ir.Measure) -> t.Type | None:
    values = [argument for argument in measure.arguments if not isinstance(argument, str)]
    return values[-1].type if values else None
