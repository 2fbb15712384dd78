"""Converts `SortField` in every message that has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import ir
from ..functions import orders_nulls_inside
from .decoder import Decoder, Steps
from .encoding.message_nodes import Message
from .function_calls import known_inside
from .plan_path import PlanPath
from .scope import Scope

_DIRECTIONS: Final = {
    1: ir.Direction.ASC_NULLS_FIRST,
    2: ir.Direction.ASC_NULLS_LAST,
    3: ir.Direction.DESC_NULLS_FIRST,
    4: ir.Direction.DESC_NULLS_LAST,
    5: ir.Direction.CLUSTERED,
}
_NULLS_LEAST: Final = (ir.Direction.ASC_NULLS_FIRST, ir.Direction.DESC_NULLS_LAST)
"""The directions in which a null is less than every other value."""


def convert_sorts(
    decoder: Decoder, fields: Sequence[Message], plan_path: PlanPath, scope: Scope
) -> Steps[tuple[ir.SortKey, ...]]:
    """The keys of the repeated field `sorts` of the message at `plan_path`."""
    keys: list[ir.SortKey] = []
    for index, field in enumerate(fields):
        at = plan_path.at("sorts", index)
        expression = yield from decoder.expression(field.expr, at / "expr", scope)
        direction = _DIRECTIONS.get(field.direction)
        if field.WhichOneof("sort_kind") == "comparison_function_reference":
            problem = "sorting by a comparison function is not supported; sort by an expression and a direction"
            decoder.problems.add(at / "comparison_function_reference", "UNSUPPORTED_SORT", problem)
        elif direction is None:
            decoder.problems.add(at / "direction", "MISSING", "a sort field needs a direction")
        if direction in _NULLS_LEAST and orders_nulls_inside(decoder.habits.dialect):
            expression = known_inside(decoder, expression, at / "expr")
        keys.append(ir.SortKey(expression=expression, direction=direction or ir.Direction.ASC_NULLS_LAST))
    return tuple(keys)
