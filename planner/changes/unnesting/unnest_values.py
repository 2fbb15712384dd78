"""The values of subqueries, as columns of the rows around them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from ... import ir
from ...functions.added_calls import call, conjunction, measure
from ...ir import types as t
from ...ir.boolean import conjuncts
from ...ir.building import columns, filtered, int64, project
from ...ir.visit import is_open, parts, subqueries
from .bound_calls import certainly, null, replaced, true
from .pulling import CannotPull, Pulled
from .unnest_rows import Rows, narrow

_NEGATED: Final = {
    ir.Comparison.EQ: ir.Comparison.NE,
    ir.Comparison.NE: ir.Comparison.EQ,
    ir.Comparison.LT: ir.Comparison.GE,
    ir.Comparison.GE: ir.Comparison.LT,
    ir.Comparison.GT: ir.Comparison.LE,
    ir.Comparison.LE: ir.Comparison.GT,
}
_NAMES: Final = {
    ir.Comparison.EQ: "equal",
    ir.Comparison.NE: "not_equal",
    ir.Comparison.LT: "lt",
    ir.Comparison.GE: "gte",
    ir.Comparison.GT: "gt",
    ir.Comparison.LE: "lte",
}
_STRICT: Final = frozenset({*_NAMES.values(), "add", "subtract", "multiply", "divide", "negate", "abs", "not"})
"""Functions that are null if an argument is null."""

Values: TypeAlias = Generator[ir.Relation, Pulled, ir.Expression]
"""A generator of values. It yields the relations of subqueries, and is sent each relation pulled."""


def values_of(rows: Rows, expression: ir.Expression) -> Values:
    """The expression over `rows`, which get a column for each subquery in it."""
    values: dict[ir.Expression, ir.Expression] = {}
    for subquery in reversed(list(subqueries(expression))):  # subqueries inside of other subqueries' needles come first
        if subquery in values:
            continue
        needles = tuple(replaced(needle, values) for needle in subquery.needles)
        if any(isinstance(part, ir.Parameter) for needle in needles for part in parts(needle)):
            raise CannotPull("a subquery reads a lambda's parameter")
        values[subquery] = yield from _value(rows, replace(subquery, needles=needles))
    return replaced(expression, values)


def _value(rows: Rows, subquery: ir.Subquery) -> Values:
    match subquery.kind:
        case ir.SubqueryKind.SCALAR:
            return _scalar(rows, (yield subquery.relation))
        case ir.SubqueryKind.EXISTS:
            pulled = existence((yield any_rows(subquery.relation)))
            return true() if pulled.one else _mark(rows, pulled, [])
        case ir.SubqueryKind.UNIQUE:
            pulled = existence((yield _doubles(subquery.relation, subquery.plan_path)))
            return call("not", _mark(rows, pulled, []))
        case ir.SubqueryKind.ALL:
            return call("not", (yield from _compared(rows, any_other(subquery))))
        case ir.SubqueryKind.IN | ir.SubqueryKind.ANY:
            return (yield from _compared(rows, subquery))


def existence(pulled: Pulled) -> Pulled:
    """The pulled relation without any wanted columns."""
    return narrow(replace(pulled, columns=()))


def any_other(subquery: ir.Subquery) -> ir.Subquery:
    """The subquery that asks for any value that contradicts the comparison: the opposite of an ALL."""
    assert subquery.comparison is not None
    return replace(subquery, kind=ir.SubqueryKind.ANY, comparison=_NEGATED[subquery.comparison])


def _compared(rows: Rows, subquery: ir.Subquery) -> Values:
    pulled = narrow((yield subquery.relation))
    if pulled.one:
        return met(subquery, subquery.needles, _joined(rows, pulled))
    needles = [rows.add(needle) for needle in subquery.needles]
    return _mark(rows, pulled, conjuncts(met(subquery, needles, [rows.met(column) for column in pulled.columns])))


def met(subquery: ir.Subquery, needles: Sequence[ir.Expression], values: Sequence[ir.Expression]) -> ir.Expression:
    """The condition that a row of the subquery matches the needles."""
    name = "equal" if subquery.comparison is None else _NAMES[subquery.comparison]
    condition = conjunction(call(name, needle, value) for needle, value in zip(needles, values, strict=True))
    assert condition is not None
    return condition


def _mark(rows: Rows, pulled: Pulled, terms: Sequence[ir.Expression]) -> ir.Field:
    """A column that marks rows with a match; null if `terms` leave that unknown."""
    rows.join(pulled, ir.JoinType.LEFT_MARK, [*map(certainly, rows.terms(pulled)), *terms])
    return ir.Field(index=len(rows.relation.schema) - 1, type=rows.relation.schema[-1])


def _joined(rows: Rows, pulled: Pulled) -> list[ir.Expression]:
    """The values of the one row that each row has."""
    values = [rows.met(column, padded=pulled.padded) for column in pulled.columns]
    rows.join(pulled, ir.JoinType.LEFT if pulled.padded else ir.JoinType.INNER, rows.terms(pulled))
    return values


def _scalar(rows: Rows, unchecked: Pulled) -> ir.Expression:
    pulled = narrow(checked(unchecked, rows.plan_path))
    if pulled.one:
        return _joined(rows, pulled)[0]
    pulled = marked(pulled)
    value = rows.met(pulled.columns[0], padded=True)
    rows.join(pulled, ir.JoinType.LEFT_SINGLE, rows.terms(pulled))
    return value


def checked(pulled: Pulled, plan_path: str) -> Pulled:
    """The pulled relation with exactly one row. A relation that is the same for all outer rows becomes its one row, or
    nulls if there is none; a second row is an error.
    """
    if pulled.one or pulled.terms or any(map(is_open, pulled.columns)):
        return pulled
    base = ir.Values(rows=((true(),),), schema=(t.Boolean(nullable=False),), plan_path=plan_path)
    rows = Rows(base, plan_path)
    rows.join(narrow(pulled), ir.JoinType.LEFT_SINGLE, ())
    projected = project(rows.relation, columns(rows.relation.schema)[1:], plan_path)
    return Pulled(relation=projected, terms=(), columns=columns(projected.schema), one=True)


def marked(pulled: Pulled) -> Pulled:
    """The pulled relation with columns that are null if no row matches, whatever the columns are made of."""
    if all(map(null_of_nulls, pulled.columns)):
        return pulled
    below = pulled.relation
    wide = project(below, (*columns(below.schema), true()), below.plan_path)
    there = ir.Field(index=len(below.schema), type=t.Boolean())
    marked_columns = tuple(
        ir.IfThen(clauses=((there, column),), otherwise=null(column.type), type=t.nullable(column.type))
        for column in pulled.columns
    )
    return replace(pulled, relation=wide, columns=marked_columns)


def null_of_nulls(expression: ir.Expression) -> bool:
    """Tests, by its form alone, whether an expression is null if all columns of its own row are null."""
    match expression:
        case ir.Field():
            return not expression.outer
        case ir.Literal():
            return expression.value is None
        case ir.Cast() | ir.NestedField():
            return null_of_nulls(expression.operand)
        case ir.Call() if expression.function.name in _STRICT:
            return any(null_of_nulls(argument) for argument in expression.arguments if not isinstance(argument, str))
        case _:
            return False


def any_rows(relation: ir.Relation) -> ir.Relation:
    """A relation reduced for an existence test: without orders, without its columns' values, and without a limit that
    lets one row through.
    """
    while True:
        match relation:
            case ir.Sort() | ir.Project():
                relation = relation.input
            case ir.Fetch() | ir.TopN() if _lets_one_through(relation.offset, relation.count):
                relation = relation.input
            case _:
                return relation


def _lets_one_through(offset: ir.Expression | None, count: ir.Expression | None) -> bool:
    match offset, count:
        case ((None | ir.Literal(value=None | 0)), (None | ir.Literal(value=None))):
            return True
        case ((None | ir.Literal(value=None | 0)), ir.Literal(value=int(wanted))):
            return wanted > 0
        case _:
            return False


def _doubles(relation: ir.Relation, plan_path: str) -> ir.Relation:
    """The different rows that are there more than once. A row with a null equals no other row."""
    fields = columns(relation.schema)
    there = conjunction(call("is_not_null", field) for field in fields if field.type.nullable)
    if there is not None:
        relation = filtered(relation, there, plan_path)
    count = measure("count")
    schema = (*relation.schema, count.type)
    groups = ir.Aggregate(
        input=relation,
        keys=fields,
        grouping_sets=(tuple(range(len(fields))),),
        measures=(count,),
        schema=schema,
        plan_path=plan_path,
    )
    return filtered(groups, call("gt", columns(schema)[-1], int64(1)))
