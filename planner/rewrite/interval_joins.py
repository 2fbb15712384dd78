"""Joins of rows whose times are near each other, as joins with a condition on their ticks."""

from __future__ import annotations

from .. import ir
from ..functions.added_calls import call, conjunction
from ..ir.building import int64


def join_of(relation: ir.IntervalJoin) -> ir.Join:
    """The join of all rows of both sides. Ticks that have to be equal are a key."""
    left, right = relation.marks
    closing = relation.closing
    terms = [call("equal", *pair) for pair in relation.keys]
    if closing.before == closing.after == 0:
        terms.append(call("equal", left, right))
    else:
        terms.append(call("gte", right, call("subtract", left, int64(closing.before))))
        terms.append(call("lte", right, call("add", left, int64(closing.after))))
    return ir.Join(
        left=relation.left,
        right=relation.right,
        type=relation.type,
        condition=conjunction(terms),
        schema=relation.schema,
        plan_path=relation.plan_path,
    )
