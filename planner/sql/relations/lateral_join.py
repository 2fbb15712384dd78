"""Lateral join: evaluates the right side for each left row, which the right side reads as an outer row."""

from __future__ import annotations

from ....proto.errors import PlanError, Problem
from ... import ir
from ..table import Table, select_list
from ..writer import Writer
from .join import mark, single


def select_lateral_join(relation: ir.LateralJoin, left: Table, right: Table, writer: Writer) -> str:
    on = writer.condition(relation.condition)
    matches = f"SELECT {select_list(right.columns)} FROM {right.item} WHERE {on}"
    match relation.type:
        case ir.JoinType.INNER:
            columns = select_list((*left.columns, *right.columns))
            return f"SELECT {columns} FROM {left.item} CROSS JOIN LATERAL {right.item} WHERE {on}"
        case ir.JoinType.LEFT:
            matching = writer.table(matches, right.width)
            columns = select_list((*left.columns, *matching.columns))
            return f"SELECT {columns} FROM {left.item} LEFT JOIN LATERAL {matching.item} ON true"
        case ir.JoinType.LEFT_SEMI:
            return f"SELECT {select_list(left.columns)} FROM {left.item} WHERE EXISTS ({matches})"
        case ir.JoinType.LEFT_ANTI:
            return f"SELECT {select_list(left.columns)} FROM {left.item} WHERE NOT EXISTS ({matches})"
        case ir.JoinType.LEFT_SINGLE:
            return single(left, right, on, writer, other_first=False)
        case ir.JoinType.LEFT_MARK:
            return mark(relation.condition, left, right, writer)
        case _:
            raise PlanError(
                Problem(
                    place=relation.plan_path,
                    reason="UNSUPPORTED_JOIN",
                    message=f"a lateral join cannot be {relation.type.value}: its right side exists only for a left "
                    "row, so it is inner, left, left_semi, left_anti, left_single or left_mark",
                )
            )
