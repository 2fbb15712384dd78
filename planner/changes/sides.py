"""The two sides of a join, and its condition taken apart into keys and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...operators.changes.join import JoinKey
from .. import ir
from ..analysis.join_terms import equality
from ..ir.boolean import conjuncts, with_conjuncts, within_is_true
from ..ir.building import columns, filtered, project
from ..ir.tree import operands
from ..ir.visit import is_column, with_positions
from .change_nodes import ChangeNode, PairCondition
from .rendering import numbered, render
from .rowwise import compute

_NULL_ONLY_OF_NULLS: Final = frozenset(
    {"equal", "not_equal", "lt", "lte", "gt", "gte", "and", "or", "not", "add", "subtract", "multiply", "negate"}
)
"""Functions that are never null if no argument is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Both inputs of a join, each with its columns and behind them the columns of computed keys. The `keys` in `unsure`
    make the condition null if a column is null; `rest` are the terms of the condition that are no keys.
    """

    left: ChangeNode
    right: ChangeNode
    keys: tuple[JoinKey, ...]
    unsure: tuple[int, ...]
    rest: tuple[ir.Expression, ...]
    condition: ir.Expression | None
    left_schema: ir.Schema
    right_schema: ir.Schema
    left_wide: ir.Schema
    right_wide: ir.Schema
    """The columns of each side with those of computed keys."""
    plan_path: str

    def swapped(self) -> Sides:
        """The sides exchanged."""
        return Sides(
            left=self.right,
            right=self.left,
            keys=tuple(JoinKey(key.right, key.left, key.nulls_match) for key in self.keys),
            unsure=self.unsure,
            rest=tuple(self._swapped(expression) for expression in self.rest),
            condition=None if self.condition is None else self._swapped(self.condition),
            left_schema=self.right_schema,
            right_schema=self.left_schema,
            left_wide=self.right_wide,
            right_wide=self.left_wide,
            plan_path=self.plan_path,
        )

    def _swapped(self, expression: ir.Expression) -> ir.Expression:
        left, right = len(self.left_schema), len(self.right_schema)
        return with_positions(expression, lambda at: at + right if at < left else at - left)


def sides_of(
    relation: ir.Join | ir.Cross, condition: ir.Expression | None, left_node: ChangeNode, right_node: ChangeNode
) -> Sides:
    """The sides of a join. Equalities are keys; an operand that is no plain column is computed into a column."""
    left, right = relation.left.schema, relation.right.schema
    of_left: list[ir.Expression] = []
    of_right: list[ir.Expression] = []
    keys: list[JoinKey] = []
    unsure: list[int] = []
    rest: list[ir.Expression] = []
    for term in () if condition is None else conjuncts(condition):
        pair = equality(within_is_true(term), len(left))
        if pair is None or not pair.of_one_type:
            rest.append(term)
        else:
            if term.type.nullable:
                unsure.append(len(keys))
            mine, theirs = _position(pair.left, left, of_left), _position(pair.right, right, of_right)
            keys.append(JoinKey(mine, theirs, pair.nulls_match))
    return Sides(
        left=_widened(left_node, left, of_left, relation.plan_path),
        right=_widened(right_node, right, of_right, relation.plan_path),
        keys=tuple(keys),
        unsure=tuple(unsure),
        rest=tuple(rest),
        condition=condition,
        left_schema=left,
        right_schema=right,
        left_wide=(*left, *(expression.type for expression in of_left)),
        right_wide=(*right, *(expression.type for expression in of_right)),
        plan_path=relation.plan_path,
    )


def sides_of_keys(relation: ir.MergeJoin, left_node: ChangeNode, right_node: ChangeNode) -> Sides:
    """The sides of a join whose keys are known to be columns."""
    condition = relation.condition
    return Sides(
        left=left_node,
        right=right_node,
        keys=tuple(JoinKey(key.left, key.right, key.nulls_match) for key in relation.keys),
        unsure=tuple(at for at, key in enumerate(relation.keys) if not key.nulls_match),
        rest=() if condition is None else tuple(conjuncts(condition)),
        condition=condition,
        left_schema=relation.left.schema,
        right_schema=relation.right.schema,
        left_wide=relation.left.schema,
        right_wide=relation.right.schema,
        plan_path=relation.plan_path,
    )


def condition_of(sides: Sides, width: int) -> PairCondition:
    """The part of the join's condition that is no key, over pairs whose left rows have `width` columns."""
    base = numbered((*sides.left_schema, *sides.right_schema), sides.plan_path)
    condition = with_conjuncts(sides.condition or sides.rest[0], sides.rest)
    numbers = project(filtered(base, condition), columns(base.schema)[-1:])
    return PairCondition(sql=render(numbers, [base]), columns=_columns(sides, width))


def condition_unknown(sides: Sides, condition: ir.Expression) -> PairCondition:
    """A condition that is true if the join's condition is null, over pairs of the sides' own columns."""
    base = numbered((*sides.left_schema, *sides.right_schema), sides.plan_path)
    both = project(base, (condition, columns(base.schema)[-1]))
    sql = f"SELECT number FROM ({render(both, [base])}) AS pairs(met, number) WHERE met IS NULL"
    return PairCondition(sql=sql, columns=_columns(sides, len(sides.left_schema)))


def null_only_of_columns(condition: ir.Expression) -> bool:
    """Tests whether a condition is never null over rows without nulls. A field of a struct may be null in such a row,
    and so may be many functions, literals and cases.
    """
    stack = [condition]
    while stack:
        part = stack.pop()
        if not part.type.nullable or is_column(part):
            continue
        match part:
            case ir.Literal():
                if part.value is None:
                    return False
            case ir.Call() if part.function.name in _NULL_ONLY_OF_NULLS:
                stack += operands(part)
            case ir.Cast(on_failure=ir.CastFailure.ERROR):
                stack.append(part.operand)
            case _:
                return False
    return True


def _columns(sides: Sides, width: int) -> tuple[int, ...]:
    return (*range(len(sides.left_schema)), *range(width, width + len(sides.right_schema)))


def _widened(node: ChangeNode, schema: ir.Schema, added: list[ir.Expression], plan_path: str) -> ChangeNode:
    return compute(node, schema, (*columns(schema), *added), plan_path) if added else node


def _position(expression: ir.Expression, schema: ir.Schema, added: list[ir.Expression]) -> int:
    if is_column(expression):
        return expression.index
    added.append(expression)
    return len(schema) + len(added) - 1
