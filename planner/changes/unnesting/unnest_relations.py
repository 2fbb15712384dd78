"""Relations with subqueries, and lateral joins, as joins."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TypeAlias

from ... import ir
from ...analysis.outer_references import OuterReferences
from ...functions.added_calls import call, conjunction
from ...ir import tree
from ...ir import types as t
from ...ir.boolean import conjuncts
from ...ir.building import columns, filtered, project
from ...ir.visit import parts, subqueries
from ...ir.walk import unroll
from .bound_calls import certainly, null, placed, replaced, true
from .pulling import CannotPull, Pulled, Pulling
from .unnest_rows import Rows, narrow
from .unnest_values import any_other, any_rows, checked, existence, marked, met, null_of_nulls, values_of

Steps: TypeAlias = Generator[ir.Relation, Pulled, ir.Relation]

_PREDICATES = (ir.SubqueryKind.EXISTS, ir.SubqueryKind.IN, ir.SubqueryKind.ANY)


class Unnesting:
    """Rewrites relations of one plan."""

    def __init__(self) -> None:
        self._pulling = Pulling(OuterReferences(), _rewritten)

    def rewritten(self, relation: ir.Relation) -> ir.Relation:
        """The relation as joins, without subqueries in its own expressions. Its inputs, and the relations that
        subqueries read, are unchanged. Raises `CannotPull` with the reason why the relation has to stay as it is.
        """
        steps = _rewritten(relation)
        try:
            asked = next(steps)
            while True:
                asked = steps.send(unroll(self._pulling.step, asked))
        except StopIteration as stop:
            result: ir.Relation = stop.value
            return result


def _rewritten(relation: ir.Relation) -> Steps:
    match relation:
        case ir.Filter():
            return (yield from _filter(relation))
        case ir.LateralJoin():
            return (yield from _lateral(relation))
        case ir.Join(type=ir.JoinType.INNER, condition=condition) if condition is not None:
            return (yield from _filter(_filter_above(relation, condition)))
        case ir.Join(condition=condition) if condition is not None:
            return (yield from _join(relation, condition))
        case ir.Project() | ir.Aggregate() | ir.Expand() | ir.Sort() | ir.Window():
            return (yield from _each_row(relation))
        case ir.TopN() if not any(count and _has_subquery(count) for count in (relation.offset, relation.count)):
            return (yield from _each_row(relation))
        case _:
            raise CannotPull(f"a {type(relation).__name__} is computed with its subqueries")


def _has_subquery(expression: ir.Expression) -> bool:
    return next(subqueries(expression), None) is not None


# --------------------------------------------------------------------------------------- relations over each row


def _each_row(relation: ir.Project | ir.Aggregate | ir.Expand | ir.Sort | ir.Window | ir.TopN) -> Steps:
    """A relation over one input. The relation evaluates its expressions for each row of the input."""
    below = relation.input
    rows = Rows(below, relation.plan_path)
    new = []
    for expression in tree.expressions(relation):
        new.append((yield from values_of(rows, expression)))  # noqa: PERF401 (a comprehension cannot yield)
    own = tree.with_expressions(relation, new)
    wide = rows.relation.schema
    match own:
        case ir.Sort() | ir.TopN():
            ordered = replace(own, input=rows.relation, schema=wide)
            return project(ordered, columns(relation.schema), relation.plan_path)
        case ir.Window():
            windowed = replace(own, input=rows.relation, schema=(*wide, *own.schema[len(below.schema) :]))
            fields = columns(windowed.schema)
            return project(windowed, (*fields[: len(below.schema)], *fields[len(wide) :]), relation.plan_path)
        case _:
            return tree.with_inputs(own, [rows.relation])


# ------------------------------------------------------------------------------------------------------- filters


def _filter(relation: ir.Filter) -> Steps:
    """A filter. Terms that read the row alone come first, then terms that are no more than a subquery."""
    terms = conjuncts(relation.condition)
    plain = conjunction(term for term in terms if not _has_subquery(term))
    below = relation.input
    if plain is not None:
        below = filtered(below, plain, relation.plan_path)
    rows = Rows(below, relation.plan_path)
    asked = [term for term in terms if _has_subquery(term)]
    for term in sorted(asked, key=lambda candidate: not isinstance(_asserted(candidate)[0], ir.Subquery)):
        yield from _filter_by(rows, term)
        rows.relation = rows.trimmed(below.schema)
    return rows.relation


def _filter_by(rows: Rows, term: ir.Expression) -> Generator[ir.Relation, Pulled, None]:
    asked = list(subqueries(term))
    if len(asked) == 1:
        asserted, wanted = _asserted(term)
        if asserted is not asked[0]:
            done = yield from _met(rows, term, asked[0])
        elif asked[0].kind is ir.SubqueryKind.ALL:
            done = yield from _semi(rows, any_other(asked[0]), not wanted)
        else:
            done = yield from _semi(rows, asked[0], wanted)
        if done:
            return
    condition = yield from values_of(rows, term)
    rows.relation = filtered(rows.relation, condition, rows.plan_path)


def _asserted(term: ir.Expression) -> tuple[ir.Expression, bool]:
    """The expression that must be true or false, and which of the two."""
    wanted = True
    while isinstance(term, ir.Call) and term.function.name == "not":
        [operand] = term.arguments
        assert not isinstance(operand, str)
        term, wanted = operand, not wanted
    return term, wanted


def _semi(rows: Rows, subquery: ir.Subquery, wanted: bool) -> Generator[ir.Relation, Pulled, bool]:
    """Adds a term that is a subquery, or its negation, as a semi or an anti join. The result says whether that is
    possible.
    """
    exists = subquery.kind is ir.SubqueryKind.EXISTS
    if subquery.kind not in _PREDICATES or not (exists or wanted or not subquery.type.nullable):
        return False
    pulled = yield any_rows(subquery.relation) if exists else subquery.relation
    if pulled.one:
        return False
    pulled = existence(pulled) if exists else narrow(pulled)
    terms = rows.terms(pulled)
    if not exists:
        terms.append(met(subquery, subquery.needles, [rows.met(column) for column in pulled.columns]))
    rows.join(pulled, ir.JoinType.LEFT_SEMI if wanted else ir.JoinType.LEFT_ANTI, terms)
    return True


def _met(rows: Rows, term: ir.Expression, scalar: ir.Subquery) -> Generator[ir.Relation, Pulled, bool]:
    """Adds a term with one scalar, which has a row for each row, as an inner join's condition. The result says whether
    that is possible.
    """
    if scalar.kind is not ir.SubqueryKind.SCALAR:
        return False
    pulled = narrow(checked((yield scalar.relation), rows.plan_path))
    if not pulled.one or (pulled.padded and not _fails_without(term, scalar, pulled.columns[0])):
        return False
    condition = replaced(term, {scalar: rows.met(pulled.columns[0])})
    rows.join(pulled, ir.JoinType.INNER, [*rows.terms(pulled), condition])
    return True


def _fails_without(term: ir.Expression, scalar: ir.Subquery, value: ir.Expression) -> bool:
    """Tests whether the term is null if the scalar's relation has no row."""
    outside: dict[ir.Expression, ir.Expression] = {
        part: replace(part, outer=part.outer + 1) for part in parts(term) if isinstance(part, ir.Field)
    }
    return null_of_nulls(replaced(term, {**outside, scalar: value}))


# --------------------------------------------------------------------------------------------------------- joins


def _filter_above(relation: ir.Join, condition: ir.Expression) -> ir.Filter:
    """An inner join with its terms with subqueries in a filter above it."""
    terms = conjuncts(condition)
    joined = replace(relation, condition=conjunction(term for term in terms if not _has_subquery(term)))
    above = conjunction(term for term in terms if _has_subquery(term))
    assert above is not None
    return filtered(joined, above, relation.plan_path)


def _join(relation: ir.Join, condition: ir.Expression) -> Steps:
    """A join. A subquery becomes a column of the side that it reads."""
    width = len(relation.left.schema)
    left = Rows(relation.left, relation.plan_path)
    right = Rows(relation.right, relation.plan_path, first=width)
    of_left: dict[ir.Expression, ir.Expression] = {}
    of_right: dict[ir.Expression, ir.Expression] = {}
    for term in conjuncts(condition):
        for subquery in subqueries(term):
            if _is_of_right(term, subquery, (yield subquery.relation), width):
                mine = columns(relation.schema)[:width]  # which needles of the right side do not read
                needles = tuple(placed(needle, (*mine, *columns(relation.right.schema))) for needle in subquery.needles)
                of_right[subquery] = yield from values_of(right, replace(subquery, needles=needles))
            else:
                of_left[subquery] = yield from values_of(left, subquery)
    return _widened(relation, condition, (left, of_left), (right, of_right))


def _is_of_right(term: ir.Expression, subquery: ir.Subquery, pulled: Pulled, width: int) -> bool:
    """Tests whether the subquery reads the join's right side; if it reads neither side, whether its term does."""
    asked = {
        part.index
        for expression in (*pulled.terms, *pulled.columns)
        for part in parts(expression)
        if isinstance(part, ir.Field) and part.outer == 1
    }
    asked |= {part.index for needle in subquery.needles for part in parts(needle) if isinstance(part, ir.Field)}
    if any(at < width for at in asked) and any(at >= width for at in asked):
        raise CannotPull("a subquery in a join's condition reads both sides of the join")
    asked |= {part.index for part in parts(term) if isinstance(part, ir.Field)} if not asked else set()
    return bool(asked) and all(at >= width for at in asked)


def _widened(
    relation: ir.Join,
    condition: ir.Expression,
    left: tuple[Rows, dict[ir.Expression, ir.Expression]],
    right: tuple[Rows, dict[ir.Expression, ir.Expression]],
) -> ir.Relation:
    """The join of sides that have the subqueries' values as columns. Its output has the old columns."""
    mine, theirs = left[0].relation.schema, right[0].relation.schema
    old, own = len(relation.left.schema), len(relation.right.schema)
    fields = (*columns(mine), *columns((*mine, *theirs))[len(mine) :])
    moved = (*fields[:old], *fields[len(mine) : len(mine) + own])
    values = {**left[1], **{key: placed(value, fields[len(mine) :]) for key, value in right[1].items()}}
    kept: dict[ir.Expression, ir.Expression] = {
        part: placed(part, moved) for part in parts(condition) if isinstance(part, ir.Field)
    }
    joined = ir.Join(
        left=left[0].relation,
        right=right[0].relation,
        type=relation.type,
        condition=replaced(condition, {**kept, **values}),
        schema=_schema_of(relation, mine, theirs),
        plan_path=relation.plan_path,
        algorithm=relation.algorithm,
    )
    outputs = columns(joined.schema)
    match relation.type:
        case ir.JoinType.LEFT_SEMI | ir.JoinType.LEFT_ANTI:
            wanted = outputs[:old]
        case ir.JoinType.RIGHT_SEMI | ir.JoinType.RIGHT_ANTI:
            wanted = outputs[:own]
        case ir.JoinType.LEFT_MARK:
            wanted = (*outputs[:old], outputs[-1])
        case ir.JoinType.RIGHT_MARK:
            wanted = (*outputs[:own], outputs[-1])
        case _:
            wanted = (*outputs[:old], *outputs[len(mine) : len(mine) + own])
    return project(joined, wanted, relation.plan_path)


def _schema_of(relation: ir.Join, left: ir.Schema, right: ir.Schema) -> ir.Schema:
    """The join's columns and, behind those of a side, the side's added columns."""
    old, own = len(relation.left.schema), len(relation.right.schema)
    added, more = tuple(map(t.nullable, left[old:])), tuple(map(t.nullable, right[own:]))
    match relation.type:
        case ir.JoinType.LEFT_SEMI | ir.JoinType.LEFT_ANTI | ir.JoinType.LEFT_MARK:
            return (*relation.schema[:old], *added, *relation.schema[old:])
        case ir.JoinType.RIGHT_SEMI | ir.JoinType.RIGHT_ANTI | ir.JoinType.RIGHT_MARK:
            return (*relation.schema[:own], *more, *relation.schema[own:])
        case _:
            return (*relation.schema[:old], *added, *relation.schema[old:], *more)


# ------------------------------------------------------------------------------------------------- lateral joins


def _lateral(relation: ir.LateralJoin) -> Steps:
    """A lateral join as a join with the pulled right side, and above it, if needed, the right side's columns."""
    if relation.condition is not None and _has_subquery(relation.condition):
        raise CannotPull("the condition of a lateral join has subqueries")
    pulled = narrow((yield relation.right))
    rows = Rows(relation.left, relation.plan_path)
    if pulled.padded:
        return _beside_one(relation, rows, pulled)
    if relation.type in (ir.JoinType.LEFT, ir.JoinType.LEFT_SINGLE):
        pulled = marked(pulled)
    terms, condition, values = rows.terms(pulled), *_seen(relation, rows, pulled)
    if relation.type is ir.JoinType.LEFT_MARK:
        terms = [certainly(term) for term in terms]
    rows.join(pulled, relation.type, [*terms, *condition])
    match relation.type:
        case ir.JoinType.LEFT_SEMI | ir.JoinType.LEFT_ANTI | ir.JoinType.LEFT_MARK:
            return rows.relation
        case _:
            return project(rows.relation, (*columns(relation.left.schema), *values), relation.plan_path)


def _seen(relation: ir.LateralJoin, rows: Rows, pulled: Pulled) -> tuple[list[ir.Expression], list[ir.Expression]]:
    """The condition's terms, and the right side's columns, over the columns of both sides."""
    values = [rows.met(column, padded=relation.type is not ir.JoinType.INNER) for column in pulled.columns]
    if relation.condition is None:
        return [], values
    both_columns = (*columns(relation.left.schema), *values)
    return [placed(term, both_columns) for term in conjuncts(relation.condition)], values


def _beside_one(relation: ir.LateralJoin, rows: Rows, pulled: Pulled) -> ir.Relation:
    """The lateral join with a right side that has one row for each left row."""
    values = [rows.met(column, padded=True) for column in pulled.columns]
    rows.join(pulled, ir.JoinType.LEFT, rows.terms(pulled))
    left = columns(relation.left.schema)
    condition = true() if relation.condition is None else placed(relation.condition, (*left, *values))
    match relation.type:
        case ir.JoinType.INNER:
            return project(filtered(rows.relation, condition), (*left, *values), relation.plan_path)
        case ir.JoinType.LEFT | ir.JoinType.LEFT_SINGLE if relation.condition is None:
            return project(rows.relation, (*left, *values), relation.plan_path)
        case ir.JoinType.LEFT | ir.JoinType.LEFT_SINGLE:
            padded = (
                ir.IfThen(clauses=((condition, value),), otherwise=null(value.type), type=t.nullable(value.type))
                for value in values
            )
            return project(rows.relation, (*left, *padded), relation.plan_path)
        case ir.JoinType.LEFT_SEMI:
            return project(filtered(rows.relation, condition), left, relation.plan_path)
        case ir.JoinType.LEFT_ANTI:
            return project(filtered(rows.relation, call("is_not_true", condition)), left, relation.plan_path)
        case ir.JoinType.LEFT_MARK:
            return project(rows.relation, (*left, condition), relation.plan_path)
        case _:
            raise CannotPull(f"a lateral join cannot be {relation.type.value}")
