"""Joins of rows whose times are near each other, as joins with a condition on their ticks."""

from __future__ import annotations

from typing import Final

from .. import ir
from ..functions.added_calls import call, conjunction
from ..ir import types as t
from ..ir.building import INT64, int64

_LEAST_TICK: Final = -(2**63)
_GREATEST_TICK: Final = 2**63 - 1


def join_of(relation: ir.IntervalJoin) -> ir.Join:
    """The join of all rows of both sides. Ticks that have to be equal are a key."""
    left, right = relation.marks
    closing = relation.closing
    terms = [call("equal", *pair) for pair in relation.keys]
    if closing.before == closing.after == 0:
        terms.append(call("equal", left, right))
    else:
        terms.append(call("gte", right, _earlier(left, closing.before, bounds_below=True)))
        terms.append(call("lte", right, _earlier(left, -closing.after, bounds_below=False)))
    return ir.Join(
        left=relation.left,
        right=relation.right,
        type=relation.type,
        condition=conjunction(terms),
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _earlier(tick: ir.Expression, by: int, *, bounds_below: bool) -> ir.Expression:
    """The tick less so many, as a bound of other ticks. If the bound does not fit into 64 bits, either every tick is
    within it or none: then it is the last tick that fits, or null.
    """
    if by == 0:
        return tick
    last = _LEAST_TICK if by > 0 else _GREATEST_TICK
    fits = call("gte" if by > 0 else "lte", tick, int64(last + by))
    all_are_within = (by > 0) == bounds_below
    return ir.IfThen(
        clauses=((fits, call("subtract", tick, int64(by))),),
        otherwise=int64(last) if all_are_within else None,
        type=t.nullable(INT64),
    )
