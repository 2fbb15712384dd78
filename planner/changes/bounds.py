"""Matches by one inequality: a row beyond a value exists if the other side's least or greatest value is beyond it.

So the other side is reduced to its extreme value for each key, and a row is compared with one value instead of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...operators.changes.group import Extreme
from ...operators.changes.join import JoinKey
from .. import ir
from ..analysis.join_terms import Comparison, comparison, side_of
from ..ir import types as t
from ..ir.arrow_types import arrow_schema
from ..ir.boolean import within_is_true
from ..ir.building import columns, filtered, project
from ..ir.visit import with_positions
from .change_nodes import ChangeNode, GroupNode, JoinNode, PairCondition
from .rendering import leaf, numbered, render
from .rowwise import lower_chain
from .sides import Sides

_GREATEST: Final = {"lt": True, "lte": True, "gt": False, "gte": False}
"""The extreme on the right of each comparison: True for the greatest, False for the least."""


def matched_by_bound(sides: Sides) -> ChangeNode | None:
    """The left rows that have a match, if beside keys one comparison reads both sides; None in other cases."""
    left = len(sides.left_schema)
    bounds: list[Comparison] = []
    of_left: list[ir.Expression] = []
    of_right: list[ir.Expression] = []
    for term in sides.rest:
        side = side_of(term, left)
        bound = _bound(term, left)
        if side == "left":
            of_left.append(term)
        elif side == "right":
            of_right.append(with_positions(term, lambda at: at - left))
        elif bound is not None:
            bounds.append(bound)
        else:
            return None
    return _matched(sides, bounds[0], of_left, of_right) if len(bounds) == 1 else None


def _bound(term: ir.Expression, width: int) -> Comparison | None:
    bound = comparison(within_is_true(term), width)
    return bound if bound is not None and bound.of_one_type and bound.term.function.name in _GREATEST else None


def _is_greatest(bound: Comparison) -> bool:
    """True if the right side's greatest value decides, False if its least does."""
    return _GREATEST[bound.term.function.name] != bound.turned


def _matched(
    sides: Sides, bound: Comparison, of_left: list[ir.Expression], of_right: list[ir.Expression]
) -> ChangeNode:
    left, width, plan_path = len(sides.left_schema), len(sides.left.schema), sides.plan_path
    extremes = _extremes(sides, bound, of_right)
    keys = tuple(JoinKey(key.left, at, key.nulls_match) for at, key in enumerate(sides.keys))
    return JoinNode(
        left=sides.left,
        right=extremes,
        keys=keys,
        output=tuple(range(left)),
        condition=PairCondition(sql=_condition(sides, bound, of_left), columns=(*range(left), width + len(keys))),
        schema=arrow_schema(sides.left_schema),
        plan_path=plan_path,
    )


def _extremes(sides: Sides, bound: Comparison, conditions: list[ir.Expression]) -> ChangeNode:
    """The right side's extreme value for each key, among the rows that meet the conditions."""
    plan_path, wide = sides.plan_path, sides.right_wide
    base = leaf(wide, plan_path)
    kept = base
    for condition in conditions:
        kept = filtered(kept, condition)
    fields = columns(wide)
    wanted = (*(fields[key.right] for key in sides.keys), bound.right)
    rows = lower_chain(project(kept, wanted), base, sides.right)
    at = len(sides.keys)
    return GroupNode(
        input=rows,
        key=tuple(range(at)),
        measures=(Extreme(column=at, greatest=_is_greatest(bound)),),
        schema=rows.schema.set(at, rows.schema.field(at).with_nullable(True)),
        plan_path=plan_path,
        always=False,
    )


def _condition(sides: Sides, bound: Comparison, of_left: list[ir.Expression]) -> str:
    """The SQL of the comparison with the extreme value and of the conditions on the left row, over the left columns and
    that value.
    """
    value = t.nullable(bound.right.type)
    base = numbered((*sides.left_schema, value), sides.plan_path)
    extreme = ir.Field(index=len(sides.left_schema), type=value)
    arguments = (extreme, bound.left) if bound.turned else (bound.left, extreme)
    kept = base
    for term in (*of_left, replace(bound.term, arguments=arguments)):
        kept = filtered(kept, term)
    return render(project(kept, columns(base.schema)[-1:]), [base])
