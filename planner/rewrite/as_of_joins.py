"""As-of joins, as joins on numbers: the right rows of a key are numbered by time, and each left row has the number of
right rows that are not later than it.
"""

from __future__ import annotations

from typing import Final

from .. import ir
from ..functions.added_calls import call, conjunction
from ..ir import types as t
from ..ir.building import INT64, columns, filtered, int64, project
from ..ir.visit import transform
from .running_windows import numbered_rows, up_to_time

_ZERO: Final = int64(0)
_ONE: Final = int64(1)


def as_of(relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation, again: ir.Relation) -> ir.Relation:
    """The join of these rows, which have the columns of the relation's inputs. `again` has the right rows, too: a
    stream may be read only once.
    """
    plan_path, width = relation.plan_path, len(left.schema)
    counted = _counted(relation, left, right)
    later = _numbered(relation, again)
    first = len(counted.schema)
    terms = [
        call("equal", mine, ir.Field(index=first + theirs.index - width, type=theirs.type))
        for mine, theirs in relation.keys
    ]
    tick, number = columns(counted.schema)[width:]
    own_tick, own_number = columns(later.schema, first)[-2:]
    terms.append(call("equal", number, own_number))
    if relation.tolerance is not None:
        least = call("subtract", tick, int64(relation.tolerance))
        terms.append(call("gte", own_tick, least))
    right_types = later.schema
    if relation.type is ir.JoinType.LEFT:
        right_types = tuple(map(t.nullable, right_types))
    joined = ir.Join(
        left=counted,
        right=later,
        type=relation.type,
        condition=conjunction(terms),
        schema=(*counted.schema, *right_types),
        plan_path=plan_path,
    )
    fields = columns(joined.schema)
    return project(joined, (*fields[:width], *fields[first : first + len(right.schema)]), plan_path)


def _numbered(relation: ir.AsOfJoin, right: ir.Relation) -> ir.Window:
    """The right rows, their ticks, and their numbers under their keys from 1 on."""
    width = len(relation.left.schema)
    tick = _moved(relation.marks[1], -width)
    rows = project(right, (*columns(right.schema), tick), relation.plan_path)
    *own, at = columns(rows.schema)
    return numbered_rows(rows, _right_keys(relation), (at, *own))


def _counted(relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation) -> ir.Project:
    """The left rows, their ticks, and the numbers of right rows of their keys that are not later."""
    plan_path, width = relation.plan_path, len(left.schema)
    mine = tuple(key for key, _ in relation.keys)
    lefts = project(left, (*columns(left.schema), *mine, relation.marks[0], _ZERO), plan_path)
    nulls = (ir.Literal(value=None, type=t.nullable(type_)) for type_ in left.schema)
    tick = _moved(relation.marks[1], -width)
    rights = project(right, (*nulls, *_right_keys(relation), tick, _ONE), plan_path)
    types = [t.nullable(type_) for type_ in (*left.schema, *(key.type for key in mine))]
    both = ir.Set(
        inputs=(lefts, rights),
        operation=ir.SetOperation.UNION_ALL,
        schema=(*types, INT64, INT64),
        plan_path=plan_path,
    )
    rows = project(both, columns(both.schema), plan_path)
    *_, at, is_right = columns(rows.schema)
    summed = up_to_time(rows, "sum", is_right, columns(rows.schema)[width:-2], at)
    condition = call("equal", is_right, _ZERO)
    kept = filtered(summed, condition)
    return project(kept, (*columns(left.schema), at, columns(summed.schema)[-1]), plan_path)


def _right_keys(relation: ir.AsOfJoin) -> tuple[ir.Field, ...]:
    width = len(relation.left.schema)
    return tuple(ir.Field(index=theirs.index - width, type=theirs.type) for _, theirs in relation.keys)


def _moved(expression: ir.Expression, by: int) -> ir.Expression:
    def change(part: ir.Expression) -> ir.Expression:
        return ir.Field(index=part.index + by, type=part.type) if isinstance(part, ir.Field) else part

    return transform(expression, change)
