"""Decodes `tidegate.v1.DeclaredOrder`: the declared order of a source's rows, which goes to the source's read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .....operators.arrays.ordering import obstacle
from .....proto.tidegate.v1.relations_pb2 import DeclaredOrder
from .... import ir
from ....ir.arrow_types import UnsupportedType, arrow_type
from ... import poison
from ...decoder import Decoder, Steps
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope, no_column
from .declared_read import with_declared

_DIRECTIONS: Final = {
    DeclaredOrder.DIRECTION_ASC_NULLS_FIRST: ir.Direction.ASC_NULLS_FIRST,
    DeclaredOrder.DIRECTION_ASC_NULLS_LAST: ir.Direction.ASC_NULLS_LAST,
    DeclaredOrder.DIRECTION_DESC_NULLS_FIRST: ir.Direction.DESC_NULLS_FIRST,
    DeclaredOrder.DIRECTION_DESC_NULLS_LAST: ir.Direction.DESC_NULLS_LAST,
}


def convert_declared_order(
    decoder: Decoder, declared: DeclaredOrder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    detail = plan_path / "detail"
    if below is poison.RELATION:
        return below
    order = _order(decoder, declared, below.schema, detail)
    return poison.RELATION if order is None else _on_the_read(decoder, below, order, detail)


def _order(
    decoder: Decoder, declared: DeclaredOrder, schema: ir.Schema, plan_path: PlanPath
) -> tuple[ir.ColumnOrder, ...] | None:
    """The keys over the input's columns; None, once reported, if they are no order."""
    if not declared.keys:
        decoder.problems.add(plan_path / "keys", "MISSING", "a declared order must have a key")
        return None
    column_orders: dict[int, ir.ColumnOrder] = {}
    for index, key in enumerate(declared.keys):
        at = plan_path.at("keys", index)
        direction = _DIRECTIONS.get(key.direction)
        if key.column >= len(schema):
            decoder.problems.add(at / "column", "OUT_OF_RANGE", no_column(schema, key.column))
            return None
        if direction is None:
            decoder.problems.add(at / "direction", "MISSING", "a key of a declared order needs a direction")
            return None
        try:
            reason = obstacle(arrow_type(schema[key.column]))
        except UnsupportedType as error:
            reason = str(error)
        if reason is not None:
            decoder.problems.add(
                at / "column", "UNSUPPORTED_SORT", f"Tidegate cannot check the order of the rows: {reason}"
            )
            return None
        column_orders.setdefault(key.column, ir.ColumnOrder(column=key.column, direction=direction))
    return tuple(column_orders.values())


def _on_the_read(
    decoder: Decoder, relation: ir.Relation, order: Sequence[ir.ColumnOrder], plan_path: PlanPath
) -> ir.Relation:
    """The read with its order, under the filters and column selections that stand above it."""

    def ordered(read: ir.Read | ir.LocalFiles, columns: Sequence[int]) -> ir.Read | ir.LocalFiles:
        keys = (replace(key, column=column) for key, column in zip(order, columns, strict=True))
        return replace(read, order=tuple(keys))

    rebuilt = with_declared(relation, [key.column for key in order], ordered)
    if rebuilt is None:
        problem = "an order can be declared only for a read, or for filters and column selections of a read;"
        decoder.problems.add(
            plan_path, "MISPLACED_ORDER", f"{problem} computed rows have the order that the plan gives them"
        )
        return poison.RELATION
    return rebuilt
