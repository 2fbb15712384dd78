"""As-of joins, in two ways.

Over the rows of an epoch both sides are sorted by keys and times, and an operator merges them: sorts need little
memory, however many rows there are. Elsewhere (over changes, in loops and correlated subqueries) they are joins on
times: each left row has the latest time of its keys' right rows that is not later than its own, and of the right rows
of one time and keys the last one alone is joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .. import ir
from ..functions.added_calls import call, conjunction
from ..ir import types as t
from ..ir.building import INT64, columns, filtered, int64, project
from ..ir.visit import with_positions
from .running_windows import next_to, up_to_time

_LEAST_TICK: Final = -(2**63)
_NO_TIME: Final = ir.Literal(value=None, type=t.nullable(INT64))


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
        span = relation.tolerance
        least = call("subtract", call("greatest", tick, int64(_LEAST_TICK + span)), int64(span))  # fits into 64 bits
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


def can_be_merged(relation: ir.AsOfJoin) -> bool:
    """Tests whether rows can be sorted by the keys outside of DuckDB as in it."""
    return all(
        isinstance(mine.type, t.IN_ORDER) and t.required(mine.type) == t.required(theirs.type)
        for mine, theirs in relation.keys
    )


def merged(relation: ir.AsOfJoin) -> ir.Project:
    """The join of all rows, by an operator over sorted rows. Right rows of one time are sorted by all columns."""
    plan_path, width = relation.plan_path, len(relation.left.schema)
    left_rows = project(relation.left, (*columns(relation.left.schema), relation.marks[0]), plan_path)
    *_, tick = columns(left_rows.schema)
    left = _sorted(left_rows, (*(mine for mine, _ in relation.keys), tick))
    right_rows = project(relation.right, (*columns(relation.right.schema), _right_tick(relation)), plan_path)
    *own, right_tick = columns(right_rows.schema)
    right = _sorted(right_rows, (*_right_keys(relation), right_tick, *own))
    right_types = right.schema
    if relation.type is ir.JoinType.LEFT:
        right_types = tuple(map(t.nullable, right_types))
    first = len(left.schema)
    joined = ir.AsOfMergeJoin(
        left=left,
        right=right,
        keys=tuple((mine, _at(theirs.index + 1, theirs.type)) for mine, theirs in relation.keys),
        ticks=(tick, _at(first + right_tick.index, right_tick.type)),
        type=relation.type,
        tolerance=relation.tolerance,
        schema=(*left.schema, *right_types),
        plan_path=plan_path,
    )
    fields = columns(joined.schema)
    return project(joined, (*fields[:width], *fields[first:-1]), plan_path)


def _sorted(rows: ir.Relation, keys: Iterable[ir.Field]) -> ir.Sort:
    by_column: dict[int, ir.Field] = {}
    for key in keys:
        by_column.setdefault(key.index, key)
    order = tuple(ir.SortKey(expression=key, direction=ir.Direction.ASC_NULLS_LAST) for key in by_column.values())
    return ir.Sort(input=rows, keys=order, schema=rows.schema, plan_path=rows.plan_path)


def _at(index: int, type_: t.Type) -> ir.Field:
    return ir.Field(index=index, type=type_)


def _last_of_times(relation: ir.AsOfJoin, right: ir.Relation) -> ir.Project:
    """The right rows, with their ticks: of those of the same keys and tick the last by all columns."""
    tick = _right_tick(relation)
    rows = project(right, (*columns(right.schema), tick), relation.plan_path)
    *own, at = columns(rows.schema)
    followed = next_to(rows, at, _right_keys(relation), (at, *own))
    is_last = call("is_distinct_from", columns(followed.schema)[-1], at)
    return project(filtered(followed, is_last), columns(rows.schema), relation.plan_path)


def _with_latest(relation: ir.AsOfJoin, left: ir.Relation, right: ir.Relation) -> ir.Project:
    """The left rows, their ticks, and the latest ticks of right rows of their keys that are not later."""
    plan_path, width = relation.plan_path, len(left.schema)
    mine = tuple(key for key, _ in relation.keys)
    lefts = project(left, (*columns(left.schema), *mine, relation.marks[0], _NO_TIME), plan_path)
    nulls = (ir.Literal(value=None, type=t.nullable(type_)) for type_ in left.schema)
    tick = _right_tick(relation)
    rights = project(right, (*nulls, *_right_keys(relation), tick, tick), plan_path)
    types = [t.nullable(type_) for type_ in (*left.schema, *(key.type for key in mine))]
    both = ir.Set(
        inputs=(lefts, rights),
        operation=ir.SetOperation.UNION_ALL,
        schema=(*types, INT64, _NO_TIME.type),
        plan_path=plan_path,
    )
    rows = project(both, columns(both.schema), plan_path)
    *_, at, of_right = columns(rows.schema)
    timed = up_to_time(rows, "last_not_null", of_right, columns(rows.schema)[width:-2], at)
    kept = filtered(timed, call("is_null", of_right))
    return project(kept, (*columns(left.schema), at, columns(timed.schema)[-1]), plan_path)


def _right_keys(relation: ir.AsOfJoin) -> tuple[ir.Field, ...]:
    width = len(relation.left.schema)
    return tuple(ir.Field(index=theirs.index - width, type=theirs.type) for _, theirs in relation.keys)


def _right_tick(relation: ir.AsOfJoin) -> ir.Expression:
    width = len(relation.left.schema)
    return with_positions(relation.marks[1], lambda at: at - width)
