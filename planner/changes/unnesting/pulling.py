"""Pulls out of a relation the parts that read enclosing rows.

A relation that reads an outer row becomes a relation that does not, `Pulled.relation`, and conditions on pairs of an
outer row and a row of that relation: a join can be made of them. Conditions move up through projections, filters and
joins unchanged. Above an aggregate, a window or a limit they have to be equalities of an outer row's value with an
inner row's value: rows are also grouped by the inner value, so that each outer row finds its own group.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ... import ir
from ...analysis.outer_references import OuterReferences
from ...functions.added_calls import call, conjunction, window_call
from ...ir import tree
from ...ir import types as t
from ...ir.boolean import conjuncts
from ...ir.building import columns, filtered, int64, project
from ...ir.relations import MOST_ROWS
from ...ir.visit import is_column, is_open, parts, subqueries_of
from .bound_calls import is_inner, placed

_EQUALITIES: Final = ("equal", "is_not_distinct_from")
_ZERO: Final = ("count", "approx_count_distinct", "sum0", "regr_count")
"""Measures whose value for no rows is zero."""
_ONE_OF_NONE: Final = ("product",)
_LEFT: Final = (
    ir.JoinType.LEFT,
    ir.JoinType.LEFT_SEMI,
    ir.JoinType.LEFT_ANTI,
    ir.JoinType.LEFT_SINGLE,
    ir.JoinType.LEFT_MARK,
)


class CannotPull(Exception):
    """The reason why a relation's references to enclosing rows cannot be pulled out of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pulled:
    """A relation with the references to outer rows pulled out.

    The rows for an outer row are `columns` of those rows of `relation` for which all of `terms` are true. Fields with
    `outer` are of the outer rows. `one` says that there is exactly one row for each outer row; with `padded`, there is
    at most one row of `relation`, and nulls stand for its columns if there is none.
    """

    relation: ir.Relation
    terms: tuple[ir.Expression, ...]
    columns: tuple[ir.Expression, ...]
    one: bool = False
    padded: bool = False


Step: TypeAlias = Generator[ir.Relation, Pulled, Pulled]
Rewriting: TypeAlias = Callable[[ir.Relation], Generator[ir.Relation, Pulled, ir.Relation]]


class Pulling:
    """Pulls references out of relations. `rewriting` makes a relation without subqueries in its own expressions, and
    without a lateral join, from one that has them.
    """

    def __init__(self, references: OuterReferences, rewriting: Rewriting) -> None:
        self._references = references
        self._rewriting = rewriting

    def step(self, relation: ir.Relation) -> Step:  # noqa: C901 (a line per relation)
        """A step of `unroll`. Raises `CannotPull`."""
        if not self._references.of(relation).rows:
            while isinstance(relation, ir.Sort):
                relation = relation.input
            return Pulled(relation=relation, terms=(), columns=columns(relation.schema), one=_has_one_row(relation))
        if needs_rewriting(relation):
            relation = yield from self._rewriting(relation)
        match relation:
            case ir.Sort():
                return (yield relation.input)
            case ir.Filter():
                return _filtered(relation, (yield relation.input))
            case ir.Project():
                return _projected(relation, (yield relation.input))
            case ir.Cross() | ir.Join(type=ir.JoinType.INNER):
                return _joined(relation, (yield relation.left), (yield relation.right))
            case ir.Join() if relation.type in _LEFT:
                if self._references.of(relation.right).rows:
                    raise CannotPull(
                        f"inside the subquery, the right side of a {relation.type.value} join reads the outer row"
                    )
                return _left_joined(relation, (yield relation.left))
            case ir.Aggregate():
                return _aggregated(relation, (yield relation.input))
            case ir.Window():
                return _windowed(relation, (yield relation.input))
            case ir.TopN(ties=False):
                return _limited(relation, relation.keys, (yield relation.input))
            case ir.Fetch(input=ir.Sort() as sort):
                return _limited(relation, sort.keys, (yield sort.input))
            case _:
                raise CannotPull(f"the subquery reads the outer row below a {_kind(relation)}")


def needs_rewriting(relation: ir.Relation) -> bool:
    """Tests whether the relation evaluates another relation for each of its rows."""
    if isinstance(relation, ir.LateralJoin):
        return True
    return bool(subqueries_of(relation))


def _kind(relation: ir.Relation) -> str:
    match relation:
        case ir.Join():
            return f"{relation.type.value} join"
        case ir.Set():
            return f"set operation ({relation.operation.value})"
        case _:
            return type(relation).__name__


def _has_one_row(relation: ir.Relation) -> bool:
    while isinstance(relation, ir.Project | ir.Sort):
        relation = relation.input
    match relation:
        case ir.Aggregate():
            return not relation.keys and len(relation.grouping_sets) <= 1
        case ir.Values():
            return len(relation.rows) == 1
        case _:
            return False


def _not_padded(pulled: Pulled, what: str) -> None:
    if pulled.padded:
        raise CannotPull(f"inside the subquery, a {what} reads an aggregate without keys that reads the outer row")


def _own(expressions: Sequence[ir.Expression], what: str) -> None:
    if any(map(is_open, expressions)):
        raise CannotPull(f"inside the subquery, a {what} is computed from the outer row")


# ---------------------------------------------------------------------------------------- filters and projections


def _filtered(relation: ir.Filter, pulled: Pulled) -> Pulled:
    _not_padded(pulled, "filter")
    conditions = [placed(term, pulled.columns) for term in conjuncts(relation.condition)]
    condition = conjunction(term for term in conditions if not is_open(term))
    terms = tuple(term for term in conditions if is_open(term))
    below = pulled.relation
    if condition is not None:
        below = filtered(below, condition, relation.plan_path)
    elif isinstance(below, ir.Cross) and _looks_at_both(below, terms):
        raise CannotPull("inside it tables meet only by way of the outer row")
    one = pulled.one and condition is None and not terms
    return replace(pulled, relation=below, terms=(*pulled.terms, *terms), one=one)


def _looks_at_both(cross: ir.Cross, terms: Sequence[ir.Expression]) -> bool:
    used = {part.index for term in terms for part in parts(term) if isinstance(part, ir.Field) and not part.outer}
    width = len(cross.left.schema)
    return any(at < width for at in used) and any(at >= width for at in used)


def _projected(relation: ir.Project, pulled: Pulled) -> Pulled:
    """The projection. Expressions over the outer row, or over nulls in place of a row, are computed above the join."""
    projected = tuple(placed(expression, pulled.columns) for expression in relation.expressions)
    if pulled.padded:
        return replace(pulled, columns=projected)
    below = pulled.relation
    added = [expression for expression in projected if not is_open(expression) and not is_column(expression)]
    if not added:
        return replace(pulled, columns=projected)
    wide = (*columns(below.schema), *added)
    positions = iter(range(len(below.schema), len(wide)))
    moved = tuple(
        expression
        if is_open(expression) or is_column(expression)
        else ir.Field(index=next(positions), type=expression.type)
        for expression in projected
    )
    return replace(pulled, relation=project(below, wide, relation.plan_path), columns=moved)


# ---------------------------------------------------------------------------------------------------------- joins


def _joined(relation: ir.Cross | ir.Join, left: Pulled, right: Pulled) -> Pulled:
    _not_padded(left, "join")
    _not_padded(right, "join")
    schema = (*left.relation.schema, *right.relation.schema)
    shifted = columns(schema)[len(left.relation.schema) :]
    both_columns = (*left.columns, *(placed(column, shifted) for column in right.columns))
    condition = None if isinstance(relation, ir.Cross) else relation.condition
    conditions = [placed(term, both_columns) for term in ([] if condition is None else conjuncts(condition))]
    inside = conjunction(term for term in conditions if not is_open(term))
    terms = (
        *left.terms,
        *(placed(term, shifted) for term in right.terms),
        *(term for term in conditions if is_open(term)),
    )
    if inside is None:
        met: ir.Relation = ir.Cross(
            left=left.relation, right=right.relation, schema=schema, plan_path=relation.plan_path
        )
        if left.terms and right.terms:
            raise CannotPull("inside it tables meet only by way of the outer row")
    else:
        met = ir.Join(
            left=left.relation,
            right=right.relation,
            type=ir.JoinType.INNER,
            condition=inside,
            schema=schema,
            plan_path=relation.plan_path,
        )
    return Pulled(relation=met, terms=terms, columns=both_columns, one=left.one and right.one and not conditions)


def _left_joined(relation: ir.Join, left: Pulled) -> Pulled:
    """A join that keeps the left rows. Conditions on the left rows alone can as well be checked above it."""
    what = f"{relation.type.value} join"
    _not_padded(left, what)
    width = len(left.relation.schema)
    schema = (*left.relation.schema, *relation.schema[len(relation.left.schema) :])
    condition = relation.condition
    if condition is not None:
        seen = (*left.relation.schema, *relation.right.schema)
        condition = placed(condition, (*left.columns, *columns(seen)[width:]))
        _own([condition], f"{what}'s condition")
    met = replace(relation, left=left.relation, condition=condition, schema=schema)
    return replace(left, relation=met, columns=(*left.columns, *columns(schema)[width:]), one=False)


# ------------------------------------------------------------------------------------ aggregates, windows, limits


@dataclass(frozen=True, slots=True)
class _Equality:
    """A term: an expression over the outer rows that equals an expression over the inner row."""

    call: ir.Call
    outer: ir.Expression
    inner: ir.Expression

    def of(self, column: ir.Field) -> ir.Expression:
        """The term over a column that has the inner value."""
        return replace(self.call, arguments=(self.outer, column))


def _equalities(pulled: Pulled, what: str) -> list[_Equality]:
    equalities = []
    for term in pulled.terms:
        equality = _equality(term)
        if equality is None:
            raise CannotPull(
                f"inside the subquery, the rows of a {what} depend on more than equalities with the outer row"
            )
        equalities.append(equality)
    return equalities


def _equality(term: ir.Expression) -> _Equality | None:
    if not isinstance(term, ir.Call) or term.function.name not in _EQUALITIES:
        return None
    one, other = term.arguments
    if isinstance(one, str) or isinstance(other, str) or t.required(one.type) != t.required(other.type):
        return None
    if is_open(one) and not is_inner(one) and not is_open(other):
        return _Equality(term, one, other)
    if is_open(other) and not is_inner(other) and not is_open(one):
        return _Equality(term, other, one)
    return None


def _aggregated(relation: ir.Aggregate, pulled: Pulled) -> Pulled:
    if len(relation.grouping_sets) > 1:
        raise CannotPull("inside the subquery, an aggregate over several grouping sets reads the outer row")
    used = relation.grouping_sets[0] if relation.grouping_sets else ()
    if tuple(used) != tuple(range(len(relation.keys))):
        raise CannotPull("inside the subquery, an aggregate leaves out keys and reads the outer row")
    _not_padded(pulled, "aggregate")
    equalities = _equalities(pulled, "aggregate")
    own = tree.with_expressions(
        relation, [placed(expression, pulled.columns) for expression in tree.expressions(relation)]
    )
    assert isinstance(own, ir.Aggregate)
    _own(tree.expressions(own), "aggregate")
    inner = tuple(equality.inner for equality in equalities)
    keys = len(own.keys)
    types = (*relation.schema[:keys], *(expression.type for expression in inner), *relation.schema[keys:])
    groups = replace(
        own,
        input=pulled.relation,
        keys=(*own.keys, *inner),
        grouping_sets=(tuple(range(keys + len(inner))),),
        schema=types,
    )
    fields = columns(types)
    measures = fields[keys + len(inner) :]
    pairs = zip(relation.measures, measures, strict=True)
    values = measures if keys else tuple(_of_none(measure, field) for measure, field in pairs)
    return Pulled(
        relation=groups,
        terms=tuple(equality.of(fields[keys + at]) for at, equality in enumerate(equalities)),
        columns=(*fields[:keys], *values),
        one=not keys,
        padded=not keys,
    )


def _of_none(measure: ir.Measure, field: ir.Field) -> ir.Expression:
    """The measure's value; if there is no group, its value for no rows."""
    padded = replace(field, type=t.nullable(field.type))
    if measure.function.name in _ONE_OF_NONE:
        raise CannotPull(f"inside the subquery, {measure.function.name} over no rows is not null")
    if measure.function.name not in _ZERO:
        return padded
    zero = ir.Cast(operand=ir.Literal(value=0, type=t.Integer(bits=64)), type=t.required(field.type))
    return ir.IfThen(clauses=((call("is_null", padded), zero),), otherwise=padded, type=field.type)


def _windowed(relation: ir.Window, pulled: Pulled) -> Pulled:
    _not_padded(pulled, "window")
    equalities = _equalities(pulled, "window")
    inner = tuple(equality.inner for equality in equalities)
    own = tree.with_expressions(
        relation, [placed(expression, pulled.columns) for expression in tree.expressions(relation)]
    )
    assert isinstance(own, ir.Window)
    _own(tree.expressions(own), "window")
    below = pulled.relation
    width = len(below.schema)
    schema = (*below.schema, *(window_call.type for window_call in own.calls))
    calls = tuple(replace(window_call, partitions=(*window_call.partitions, *inner)) for window_call in own.calls)
    windowed = ir.Window(input=below, calls=calls, schema=schema, plan_path=relation.plan_path)
    return replace(pulled, relation=windowed, columns=(*pulled.columns, *columns(schema)[width:]), one=False)


def _limited(relation: ir.TopN | ir.Fetch, keys: Sequence[ir.SortKey], pulled: Pulled) -> Pulled:
    """The first rows of each group by their number, ties broken by all columns, as in a limit on all rows."""
    _not_padded(pulled, "limit")
    skipped, wanted = _number(relation.offset), _number(relation.count)
    equalities = _equalities(pulled, "limit")
    sorts = [replace(key, expression=placed(key.expression, pulled.columns)) for key in keys]
    _own([key.expression for key in sorts], "sort")
    direction = ir.Direction.ASC_NULLS_LAST
    ties = [ir.SortKey(expression=column, direction=direction) for column in pulled.columns if not is_open(column)]
    partitions = tuple(equality.inner for equality in equalities)
    numbering = replace(window_call("row_number"), partitions=partitions, sorts=(*sorts, *ties))
    below = pulled.relation
    schema = (*below.schema, numbering.type)
    windowed = ir.Window(input=below, calls=(numbering,), schema=schema, plan_path=relation.plan_path)
    position = columns(schema)[-1]
    limits = [call("gt", position, int64(skipped))] if skipped else []
    last = None if wanted is None else (skipped or 0) + wanted
    if last is not None and last < MOST_ROWS:
        limits.append(call("lte", position, int64(last)))
    condition = conjunction(limits)
    if condition is None:
        return pulled
    return replace(pulled, relation=filtered(windowed, condition), one=False)


def _number(expression: ir.Expression | None) -> int | None:
    match expression:
        case None | ir.Literal(value=None):
            return None
        case ir.Literal(value=int(value)) if value >= 0:
            return value
        case _:
            raise CannotPull("inside the subquery, a limit is not a literal number")
