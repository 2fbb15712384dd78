"""Decodes `ReadRel.VirtualTable`: rows in the plan, as expressions or, before 0.98, as literals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ir
from ....ir import types as t
from ... import poison
from ...comparing import castable, same_type
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope

if TYPE_CHECKING:
    from ...decoder import Decoder, Steps
    from .read import Base


def convert_virtual_table(
    decoder: Decoder, message: Message, plan_path: PlanPath, base: Base, outer: Scope | None
) -> Steps[ir.Relation]:
    """The table. A value of another type than its column is cast if both are, say, numbers; a null needs a nullable
    column.
    """
    scope = Scope(schema=(), outer=outer)
    rows: list[tuple[tuple[ir.Expression, ...], PlanPath]] = []
    for index, row in enumerate(message.values):
        at = plan_path.at("values", index)
        rows.append((decoder.literals.row(row.fields, at, "fields", 1, untyped=True), at))
    if message.expressions and decoder.habits.rows_are_single_expressions:
        problem = (
            "virtual tables of expressions in the form of Substrait 0.58 are not supported; use another release of "
            "Substrait"
        )
        decoder.problems.add(plan_path / "expressions", "UNSUPPORTED_READ", problem)
        return poison.RELATION
    for index, row in enumerate(message.expressions):
        at = plan_path.at("expressions", index)
        rows.append(((yield from decoder.expressions(row.fields, at, "fields", scope, untyped=True)), at))
    fitted = tuple(_fit(decoder, row, base, at) for row, at in rows)
    return ir.Values(rows=fitted, schema=base.schema, plan_path=str(plan_path))


def _fit(
    decoder: Decoder, row: tuple[ir.Expression, ...], base: Base, plan_path: PlanPath
) -> tuple[ir.Expression, ...]:
    if len(row) != len(base.schema):
        problem = f"a row of {len(row)} values in a table of {len(base.schema)} columns"
        decoder.problems.add(plan_path, "WRONG_WIDTH", problem)
        return row
    fitted: list[ir.Expression] = []
    for index, (value, type_) in enumerate(zip(row, base.schema, strict=True)):
        at = plan_path.at("fields", index)
        if value is poison.NULL:
            value = ir.Literal(value=None, type=t.nullable(type_))  # noqa: PLW2901  # the column tells its type
        if is_unknown(value.type) or same_type(value.type, type_):
            fitted.append(value)
        elif castable(value.type, type_):
            fitted.append(ir.Cast(operand=value, type=type_))
        else:
            problem = f"{value.type} in column {base.names[index]!r}, which is {type_}"
            decoder.problems.add(at, "MIXED_TYPES", problem)
            fitted.append(poison.EXPRESSION)
        if isinstance(value, ir.Literal) and value.value is None and not type_.nullable and not is_unknown(value.type):
            problem = f"null in column {base.names[index]!r}, which is required"
            decoder.problems.add(at, "NULL_IN_REQUIRED", problem)
    return tuple(fitted)
