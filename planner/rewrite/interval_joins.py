"""Joins of rows whose times are near each other, as joins with a condition on their ticks."""

from __future__ import annotations

from typing import Final

from .. import ir
from ..functions import bind_scalar
from ..ir import types as t

_NUMBER: Final = t.Integer(bits=64, nullable=False)


def join_of(relation: ir.IntervalJoin) -> ir.Join:
    """The join of all rows of both sides. Ticks that have to be equal are a key."""
    left, right = relation.marks
    closing = relation.closing
    terms = [bind_scalar("equal", None, pair) for pair in relation.keys]
    if closing.before == closing.after == 0:
        terms.append(bind_scalar("equal", None, (left, right)))
    else:
        terms.append(bind_scalar("gte", None, (right, bind_scalar("subtract", None, (left, _ticks(closing.before))))))
        terms.append(bind_scalar("lte", None, (right, bind_scalar("add", None, (left, _ticks(closing.after))))))
    condition = terms[0] if len(terms) == 1 else bind_scalar("and", None, tuple(terms))
    return ir.Join(
        left=relation.left,
        right=relation.right,
        type=relation.type,
        condition=condition,
        schema=relation.schema,
        plan_path=relation.plan_path,
    )


def _ticks(count: int) -> ir.Literal:
    return ir.Literal(value=count, type=_NUMBER)
