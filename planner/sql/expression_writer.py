"""Expressions as DuckDB's SQL.

`render` walks an expression without recursion. The SQL is of exactly `sql_type(expression.type)`, but a decimal may
have fewer digits (with the same scale). The SQL is one operand: it can stand in any place without brackets.

Relations know where a column, an enclosing row or a subquery is in SQL, and pass that in as a `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ...operators.duckdb.sql_text import is_clock
from ...proto.errors import PlanError, Problem
from .. import ir
from ..functions import result_types
from ..functions.aliases import type_of
from ..functions.function_options import choose
from ..functions.templates import entry, named_values
from ..functions.templates.comparison import balanced, rows_equal
from ..functions.templates.named_values import let_bound, let_compared, let_lazy, let_written_out, written
from ..functions.templates.use import AggregateCall, Use
from ..functions.templates.window_functions import RANKING
from ..ir import types as t
from ..ir.arrow_types import sql_type
from ..ir.boolean import is_connective, terms
from ..ir.tree import measured
from ..ir.visit import parts
from ..ir.walk import unroll
from . import cast_expressions as casts
from . import subquery_expressions as subqueries
from . import window_frames as frames
from .aggregate_calls import aggregate_call
from .growth_guards import Guards
from .literal_rows import many_literals
from .literal_sql import literal

_CHECKED: Final[set[Hashable]] = set()
"""The forms of uses that were checked: plans repeat themselves."""

_MOST_CHECKED: Final = 4096


class Scope(Protocol):
    """The names that an expression can use."""

    @property
    def guards(self) -> Guards | None:
        """The guards of the relation's expressions; None where they need none."""
        ...

    def column(self, index: int, outer: int) -> str:
        """The qualified column `index` of the current row, or of the `outer`-th enclosing subquery's row."""
        ...

    def subquery(self, relation: ir.Relation) -> str:
        """A SELECT for a subquery, in which this scope's row is the nearest enclosing row. Columns in order."""
        ...

    def context(self, variable: ir.Clock) -> str:
        """The column, or scalar subquery, that holds a clock value."""
        ...


_NESTED_GUARDS: Final = 6
_NESTED: Final = (
    f"the lengths of texts depend on the lengths of other texts that are computed, more than {_NESTED_GUARDS} times "
    "in one another: compute in several steps"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """An expression at some depth of lambdas. The depth names the lambda's parameters. `skipped`: some rows are not to
    compute it, because a CASE or a COALESCE around it does not ask for it.
    """

    expression: ir.Expression
    scope: Scope
    lambdas: int
    skipped: bool = False

    def inside(self, expression: ir.Expression, *, lambdas: int = 0, skipped: bool = False) -> _Part:
        return _Part(expression, self.scope, self.lambdas + lambdas, self.skipped or skipped)


_Step: TypeAlias = Generator[_Part, str, str]


def _each(
    expressions: Iterable[ir.Expression | str], part: _Part, *, lazy: bool = False
) -> Generator[_Part, str, list[str]]:
    """The SQL of all expressions, in order. A plain string is an enum argument and stays. `lazy`: some rows skip those
    behind the first.
    """
    rendered: list[str] = []
    for expression in expressions:
        match expression:
            case str():
                rendered.append(expression)
            case ir.Literal() | ir.Field():
                rendered.append(_leaf(expression, part.scope))
            case _:
                rendered.append((yield part.inside(expression, skipped=lazy and bool(rendered))))
    return rendered


def _leaf(leaf: ir.Literal | ir.Field, scope: Scope) -> str:
    if isinstance(leaf, ir.Literal):
        return literal(leaf.value, leaf.type)
    return _stepped(scope.column(leaf.index, leaf.outer), leaf.steps)


def render(expression: ir.Expression, scope: Scope) -> str:
    """The expression as SQL. Raises `PlanError` for a value that cannot be carried and for an unsupported
    expression.
    """
    return written(_at(expression, scope, 0))


def _at(expression: ir.Expression, scope: Scope, lambdas: int) -> str:
    if isinstance(expression, ir.Literal | ir.Field):
        return _leaf(expression, scope)
    return unroll(_render, _Part(expression, scope, lambdas))


def guarded(expression: ir.Expression, scope: Scope) -> str:
    """The expression as SQL that stops the statement before it makes more bytes than fit into memory. A condition keeps
    its form: DuckDB joins by hash where it sees an equation.
    """
    return _guarded(expression, scope, 0, written)


def _guarded(expression: ir.Expression, scope: Scope, nesting: int, finish: Callable[[str], str] = str) -> str:
    """The guarded SQL, with guards around the operands of a condition's terms. `finish` changes each term's SQL."""
    if not is_connective(expression):
        return finish(_guarded_term(expression, scope, nesting))
    connected = [finish(_guarded_term(term, scope, nesting)) for term in terms(expression)]
    return balanced(f" {expression.function.name.upper()} ", connected) if connected else _at(expression, scope, 0)


def _guarded_term(term: ir.Expression, scope: Scope, nesting: int) -> str:
    if not isinstance(term, ir.Call) or not isinstance(term.type, t.Boolean) or is_connective(term):
        return _guarded_whole(term, scope, nesting)
    if any(isinstance(argument, ir.Lambda) for argument in term.arguments):
        return _guarded_whole(term, scope, nesting)
    operands = [one if isinstance(one, str) else _guarded_whole(one, scope, nesting) for one in term.arguments]
    return applied(term, operands, None)


def _guarded_whole(expression: ir.Expression, scope: Scope, nesting: int) -> str:
    test = None if isinstance(expression, ir.Literal) else _guard((expression,), scope, nesting)
    sql = _at(expression, scope, 0)
    return sql if test is None else f"CASE WHEN {test} THEN NULL ELSE {sql} END"


def guard(row: Sequence[ir.Expression], scope: Scope) -> str | None:
    """A condition that stops the statement where these columns of a row are too large; None if none is needed."""
    test = _guard(row, scope, 0)
    return None if test is None else written(test)


def _guard(row: Sequence[ir.Expression], scope: Scope, nesting: int) -> str | None:
    """The guard of expressions inside of `nesting` other guards."""
    guards = scope.guards
    if guards is None:
        return None

    def rendered(expression: ir.Expression, lambdas: int) -> str:
        if lambdas:
            return _at(expression, scope, lambdas)
        if nesting > _NESTED_GUARDS:
            raise PlanError(Problem(place=guards.plan_path, reason="PLAN_TOO_LARGE", message=_NESTED))
        return _guarded(expression, scope, nesting + 1)

    return guards.of(row, rendered)


def _render(part: _Part) -> _Step:  # noqa: C901  # a line per kind
    match part.expression:
        case ir.Literal() | ir.Field() as leaf:
            return _leaf(leaf, part.scope)
        case ir.NestedField(operand=operand, steps=steps):
            return _stepped((yield part.inside(operand)), steps)
        case ir.Call() as call:
            return (yield from _call(call, part))
        case ir.Cast(operand=operand, type=type_, on_failure=failure):
            return casts.cast((yield part.inside(operand)), operand.type, type_, failure)
        case ir.IfThen() as conditional:
            return (yield from _if_then(conditional, part))
        case ir.Switch() as switch:
            return (yield from _switch(switch, part))
        case ir.OneOf() as one_of:
            return (yield from _one_of(one_of, part))
        case ir.Nested() as nested:
            return (yield from _nested(nested, part))
        case ir.Lambda(parameters=parameters, body=body):
            names = ", ".join(_parameter(part.lambdas, i) for i in range(len(parameters)))
            return f"lambda {names}: {named_values.in_lambda((yield part.inside(body, lambdas=1)))}"
        case ir.Parameter(index=index, outer=outer):
            return _parameter(part.lambdas - 1 - outer, index)
        case ir.Subquery(needles=needles, relation=relation) as subquery:
            return subqueries.subquery(subquery, (yield from _each(needles, part)), part.scope.subquery(relation))
        case ir.ContextVariable(variable=variable, type=type_):
            return f"CAST({named_values.subquery(part.scope.context(variable))} AS {sql_type(type_)})"


def _parameter(depth: int, index: int) -> str:
    return f"p{depth}_{index}"


def _stepped(sql: str, steps: Sequence[int | ir.ListElement | ir.MapKey]) -> str:
    for step in steps:
        match step:
            case int():
                sql = f"struct_extract_at({sql}, {step + 1})"
            case ir.ListElement(offset=offset):  # Substrait counts from zero, and backwards from -1
                sql = f"list_extract({sql}, {offset + 1 if offset >= 0 else offset})"
            case ir.MapKey(key=key):
                sql = f"map_extract_value({sql}, {literal(key.value, key.type)})"
    return sql


# --------------------------------------------------------------------------------------------------- functions


def _call(call: ir.Call, part: _Part) -> _Step:
    """A call. A nest of one connective is one list of terms, however deep it is."""
    if is_connective(call):
        connected = yield from _each(terms(call), part)
        return balanced(f" {call.function.name.upper()} ", connected) if connected else applied(call, (), None)
    return _once(call, (yield from _each(call.arguments, part, lazy=call.function.name == "coalesce")))


def _once(call: ir.Call, arguments: Sequence[str]) -> str:
    """A call whose long arguments DuckDB writes out once."""
    values = [at for at, argument in enumerate(call.arguments) if not isinstance(argument, str | ir.Lambda)]

    def of_values(sqls: Sequence[str]) -> str:
        named = dict(zip(values, sqls, strict=True))
        return applied(call, [named.get(at, sql) for at, sql in enumerate(arguments)], None)

    return let_written_out([arguments[at] for at in values], of_values)


def applied(
    use: ir.Call | ir.Measure | ir.WindowCall, arguments: Sequence[str], aggregate: AggregateCall | None
) -> str:
    """The function's template, with its result as the plan's declared type. A template that rounds decimals rounds to
    the declared digits, so that no result is rounded twice.
    """
    function = use.function
    implementation = result_types.implementation_of(function)
    derived = result_types.derived_type(function, use.arguments)
    exact = isinstance(derived, t.Decimal) and isinstance(use.type, t.Decimal)
    table_entry = entry(function.kind, implementation.file, function.name)
    if table_entry is None:
        raise PlanError(
            Problem(
                place=use.plan_path, reason="UNSUPPORTED_FUNCTION", message=f"{function.signature} is not supported"
            )
        )
    sql = table_entry.template(
        Use(
            name=function.name,
            arguments=tuple(arguments),
            types=tuple(type_of(argument) for argument in use.arguments),
            result=use.type if exact else derived,
            choices=choose(implementation, use.options, use.plan_path),
            constants=tuple(_constant(argument) for argument in use.arguments),
            plan_path=use.plan_path,
            aggregate=aggregate,
            ordered=isinstance(use, ir.Measure) and bool(use.sorts),
        )
    )
    if t.nullable(derived) == t.nullable(use.type):
        return sql
    return casts.declared(sql, derived, use.type)


def check(use: ir.Call | ir.Measure | ir.WindowCall) -> None:
    """Raises `PlanError` if the function cannot be used like this, whatever its operands are."""
    form = _form(use)
    if form in _CHECKED:
        return
    sql_type(use.type)
    _check_zones(use)
    arguments = [argument if isinstance(argument, str) else "x" for argument in use.arguments]
    applied(use, arguments, lambda *_: "x")
    if form is not None:
        if len(_CHECKED) >= _MOST_CHECKED:
            _CHECKED.clear()
        _CHECKED.add(form)


def _check_zones(use: ir.Call | ir.Measure | ir.WindowCall) -> None:
    implementation = result_types.implementation_of(use.function)
    for index, constant in enumerate(map(_constant, use.arguments)):
        if implementation.parameter(index).name == "timezone" and isinstance(constant, str) and not is_clock(constant):
            problem = f"{use.function.name}: {constant!r} is no time zone: give its IANA name, as 'Europe/Berlin'"
            raise PlanError(Problem(place=use.plan_path, reason="UNKNOWN_TIME_ZONE", message=problem))


def _form(use: ir.Call | ir.Measure | ir.WindowCall) -> Hashable:
    """All that a check looks at; None if that is more than types and numbers."""
    constants = tuple(map(_constant, use.arguments))
    if not all(isinstance(constant, int | float | None) for constant in constants):
        return None
    arguments = tuple(argument if isinstance(argument, str) else type_of(argument) for argument in use.arguments)
    kinds = tuple(map(type, constants))
    return type(use), use.function, arguments, kinds, constants, use.type, tuple(use.options.items())


def _constant(argument: ir.Expression | str) -> object:
    """A literal's value, also behind the conversion to its parameter's type."""
    if isinstance(argument, ir.Cast):
        argument = argument.operand
    return argument.value if isinstance(argument, ir.Literal) else None


def render_measure(measure: ir.Measure, scope: Scope) -> str:
    """The use of an aggregate function, for the SELECT list of a grouping query.

    SQL takes an aggregate whose columns are all an enclosing query's for an aggregate of that query. A condition that
    is always true gives it a column of its own query.
    """
    distinct = "DISTINCT " if measure.distinct else ""
    order = f" ORDER BY {render_sorts(measure.sorts, scope)}" if measure.sorts else ""
    conditions = [] if measure.condition is None else [guarded(measure.condition, scope)]
    if reads_enclosing_rows_alone(measure):
        conditions.append(f"({scope.column(0, 0)} IS NULL OR true)")
    condition = " AND ".join(conditions) or None

    def aggregate(name: str, *arguments: str) -> str:
        return aggregate_call(name, arguments, condition, distinct=distinct, order=order)

    return applied(measure, render_arguments(measure.arguments, scope), aggregate)


def reads_enclosing_rows_alone(measure: ir.Measure) -> bool:
    """Tests whether all columns that a measure reads, one at least, are of enclosing queries' rows."""
    fields = (part for own in measured(measure) for part in parts(own) if isinstance(part, ir.Field))
    enclosing = [field.outer > 0 for field in fields]
    return any(enclosing) and all(enclosing)


def render_window_call(call: ir.WindowCall, scope: Scope) -> str:
    """The use of a window function, for the SELECT list over its input."""
    over = _over(call, scope)
    distinct = "DISTINCT " if call.distinct else ""

    def aggregate(name: str, *arguments: str) -> str:
        return f"{name}({distinct}{', '.join(arguments)}) OVER ({over})"

    return applied(call, render_arguments(call.arguments, scope), aggregate)


def render_arguments(arguments: Sequence[ir.Expression | str], scope: Scope) -> list[str]:
    return [argument if isinstance(argument, str) else guarded(argument, scope) for argument in arguments]


def render_sorts(sorts: Sequence[ir.SortKey], scope: Scope) -> str:
    """The keys of an ORDER BY."""
    keys = []
    for sort in sorts:
        direction = sort.direction
        if direction is ir.Direction.CLUSTERED:  # any order that puts equal keys together
            direction = ir.Direction.ASC_NULLS_FIRST
        keys.append(f"{guarded(sort.expression, scope)} {direction.value}")
    return ", ".join(keys)


def _over(call: ir.WindowCall, scope: Scope) -> str:
    parts = []
    if call.partitions:
        parts.append("PARTITION BY " + ", ".join(guarded(partition, scope) for partition in call.partitions))
    if call.sorts:
        parts.append("ORDER BY " + render_sorts(frames.wide_sorts(call), scope))
    if call.function.name not in RANKING:
        lower, upper = frames.bound(call.lower, "PRECEDING"), frames.bound(call.upper, "FOLLOWING")
        parts.append(f"{call.bounds.value} BETWEEN {lower} AND {upper}")
    return " ".join(parts)


# ------------------------------------------------------------------------------------------------ conditionals


def _if_then(conditional: ir.IfThen, part: _Part) -> _Step:
    clauses: list[str] = []
    for condition, result in conditional.clauses:
        when = yield part.inside(condition, skipped=bool(clauses))
        clauses.append(f"WHEN {when} THEN {yield part.inside(result, skipped=True)}")
    otherwise = literal(None, t.nullable(conditional.type))
    if conditional.otherwise is not None:
        otherwise = yield part.inside(conditional.otherwise, skipped=True)
    return f"CASE {' '.join(clauses)} ELSE {otherwise} END" if clauses else otherwise


def _switch(switch: ir.Switch, part: _Part) -> _Step:
    clauses = []
    for match, result in switch.clauses:
        clauses.append(f"WHEN {literal(match.value, match.type)} THEN {yield part.inside(result, skipped=True)}")
    subject = yield part.inside(switch.match)
    otherwise = literal(None, t.nullable(switch.type))
    if switch.otherwise is not None:
        otherwise = yield part.inside(switch.otherwise, skipped=True)
    if not clauses:
        return otherwise
    cases = f"{' '.join(clauses)} ELSE {otherwise} END"
    return let_bound([subject], lambda named: f"CASE {named[0]} {cases}")


def _one_of(one_of: ir.OneOf, part: _Part) -> _Step:
    value = yield from _each(one_of.value, part)
    # DuckDB joins with a list of constants, before a CASE around it chooses the rows: the value of a row that the CASE
    # skips must not fail. It does not do so in lambdas.
    is_lazy = part.skipped and not all(isinstance(operand, ir.Field | ir.Literal) for operand in one_of.value)
    rows = None if part.lambdas or is_lazy else many_literals(one_of)
    if rows is not None:
        # Compared with true, the subquery stays a column of each row. As the filter itself it would become a semi join,
        # whose sides DuckDB may swap, and with them the order of the rows.
        return f"({named_values.subquery(f'({written(_row_of(value))} IN ({rows}))')} = true)"
    options: list[Sequence[str]] = []
    for option in one_of.options:
        options.append((yield from _each(option, part)))  # noqa: PERF401  # a comprehension cannot yield
    if not options:
        return "false"
    let = let_lazy if is_lazy else let_compared
    if len(value) > 1 and one_of.type.nullable:  # DuckDB takes nulls in rows for values
        return let(value, lambda named: balanced(" OR ", [rows_equal(named, option) for option in options]))
    return let(value, lambda named: f"({_row_of(named)} IN ({', '.join(map(_row_of, options))}))")


def _row_of(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"({', '.join(items)})"


def _nested(nested: ir.Nested, part: _Part) -> _Step:
    items = yield from _each(nested.items, part)
    wanted = sql_type(nested.type)
    match nested.construct:
        case ir.Construct.STRUCT:
            return f"struct_pack({', '.join(f'f{i} := {item}' for i, item in enumerate(items, 1))})"
        case ir.Construct.LIST:
            return f"CAST([{', '.join(items)}] AS {wanted})"
        case ir.Construct.MAP:
            return f"CAST(map([{', '.join(items[::2])}], [{', '.join(items[1::2])}]) AS {wanted})"
