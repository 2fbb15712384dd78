"""As-of joins. Of the right rows of one time and keys the last one alone is joined.

Over changes they are joins on times: each left row has the latest time of its keys' right rows that is not later than
its own, so a change of a right row changes few rows. Over all rows of an epoch each left row has the values of that
right row at once, without a join, whose table would have to fit into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..functions.added_calls import call, conjunction
from ..ir import types as t
from ..ir.building import INT64, columns, filtered, int64, project
from ..ir.visit import transform
from .running_windows import carried_on, next_to


def as_of(relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation, again: ir.Relation) -> ir.Relation:
    """The join of these rows, which have the columns of the relation's inputs. `again` has the right rows, too: a
    stream may be read only once.
    """
    plan_path, width = relation.plan_path, len(left.schema)
    timed = _with_latest(relation, left, right)
    lasts = _last_of_times(relation, again)
    first = len(timed.schema)
    terms = [
        call("equal", mine, ir.Field(index=first + theirs.index - width, type=theirs.type))
        for mine, theirs in relation.keys
    ]
    tick, latest = columns(timed.schema)[width:]
    own_tick = columns(lasts.schema, first)[-1]
    terms.append(call("equal", latest, own_tick))
    if relation.tolerance is not None:
        least = call("subtract", tick, int64(relation.tolerance))
        terms.append(call("gte", own_tick, least))
    right_types = lasts.schema
    if relation.type is ir.JoinType.LEFT:
        right_types = tuple(map(t.nullable, right_types))
    joined = ir.Join(
        left=timed,
        right=lasts,
        type=relation.type,
        condition=conjunction(terms),
        schema=(*timed.schema, *right_types),
        plan_path=plan_path,
    )
    fields = columns(joined.schema)
    return project(joined, (*fields[:width], *fields[first : first + len(right.schema)]), plan_path)


def latest_rows(relation: ir.AsOfJoin) -> ir.Project:
    """The join of all rows, without a join: right rows carry their values on to later left rows. A value that may be
    null is carried in a struct, which is null in left rows alone.
    """
    left, right, plan_path = relation.left, relation.right, relation.plan_path
    for key in _right_keys(relation):
        right = filtered(right, call("is_not_null", key)) if key.type.nullable else right
    lasts = _last_of_times(relation, right)
    *own, at = columns(lasts.schema)
    rows = _both(relation, left, lasts, at, (at, *map(_carried, own)))
    width, ticks = len(left.schema), len(left.schema) + len(relation.keys)
    *_, tick, of_right = columns(rows.schema[: ticks + 2])
    carried = columns(rows.schema)[ticks + 1 :]
    timed = carried_on(rows, carried, columns(rows.schema)[width:ticks], tick)
    kept = filtered(timed, call("is_null", of_right))
    latest, *values = columns(timed.schema)[len(rows.schema) :]
    is_there = call("is_not_null", latest)
    if relation.tolerance is not None:
        is_there = call("gte", latest, call("subtract", tick, int64(relation.tolerance)))
    right_columns = [_value(value, mine.type) for value, mine in zip(values, own, strict=True)]
    if relation.type is not ir.JoinType.LEFT:
        return project(filtered(kept, is_there), (*columns(left.schema), *right_columns), plan_path)
    return project(kept, (*columns(left.schema), *(_only_if(is_there, value) for value in right_columns)), plan_path)


def _carried(column: ir.Field) -> ir.Expression:
    type_ = t.Struct(fields=(column.type,), nullable=False)
    return ir.Nested(construct=ir.Construct.STRUCT, items=(column,), type=type_) if column.type.nullable else column


def _value(carried: ir.Field, type_: t.Type) -> ir.Field:
    return ir.Field(index=carried.index, type=type_, steps=(0,) if type_.nullable else ())


def _last_of_times(relation: ir.AsOfJoin, right: ir.Relation) -> ir.Project:
    """The right rows, with their ticks: of those of the same keys and tick the last by all columns."""
    width = len(relation.left.schema)
    tick = _moved(relation.marks[1], -width)
    rows = project(right, (*columns(right.schema), tick), relation.plan_path)
    *own, at = columns(rows.schema)
    followed = next_to(rows, at, _right_keys(relation), (at, *own))
    is_last = call("is_distinct_from", columns(followed.schema)[-1], at)
    return project(filtered(followed, is_last), columns(rows.schema), relation.plan_path)


def _with_latest(relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation) -> ir.Project:
    """The left rows, their ticks, and the latest ticks of right rows of their keys that are not later."""
    width = len(left.schema)
    tick = _moved(relation.marks[1], -width)
    rows = _both(relation, left, right, tick, (tick,))
    *_, at, of_right = columns(rows.schema)
    timed = carried_on(rows, (of_right,), columns(rows.schema)[width:-2], at)
    kept = filtered(timed, call("is_null", of_right))
    return project(kept, (*columns(left.schema), at, columns(timed.schema)[-1]), relation.plan_path)


def _both(
    relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation, tick: ir.Expression, carried: Sequence[ir.Expression]
) -> ir.Project:
    """The rows of both sides: the left columns, the keys, the tick, and what right rows carry. The columns of the other
    side are null.
    """
    plan_path = relation.plan_path
    mine = tuple(key for key, _ in relation.keys)
    left_types = [t.nullable(type_) for type_ in left.schema]
    carried_types = [t.nullable(value.type) for value in carried]
    lefts = project(left, (*columns(left.schema), *mine, relation.marks[0], *map(_null, carried_types)), plan_path)
    rights = project(right, (*map(_null, left_types), *_right_keys(relation), tick, *carried), plan_path)
    both = ir.Set(
        inputs=(lefts, rights),
        operation=ir.SetOperation.UNION_ALL,
        schema=(*left_types, *(t.nullable(key.type) for key in mine), INT64, *carried_types),
        plan_path=plan_path,
    )
    return project(both, columns(both.schema), plan_path)


def _only_if(condition: ir.Expression, value: ir.Field) -> ir.IfThen:
    type_ = t.nullable(value.type)
    return ir.IfThen(clauses=((condition, replace(value, type=type_)),), otherwise=_null(type_), type=type_)


def _null(type_: t.Type) -> ir.Literal:
    return ir.Literal(value=None, type=type_)


def _right_keys(relation: ir.AsOfJoin) -> tuple[ir.Field, ...]:
    width = len(relation.left.schema)
    return tuple(ir.Field(index=theirs.index - width, type=theirs.type) for _, theirs in relation.keys)


def _moved(expression: ir.Expression, by: int) -> ir.Expression:
    def change(part: ir.Expression) -> ir.Expression:
        return ir.Field(index=part.index + by, type=part.type) if isinstance(part, ir.Field) else part

    return transform(expression, change)
