"""Decodes `tidegate.v1.PackLists`."""

from __future__ import annotations

from typing import Any, Final

from ... import ir
from ...ir.building import project
from ...ir.types import Float, Integer, List, Type, nullable, required
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope, column, no_column

MOST_ITEMS: Final = 1 << 20
"""The most items of a row, and rows of a window: the operator holds a window in memory."""

_NUMBERS: Final = List(element=Integer(bits=32, nullable=False), nullable=False)
_WHOLE_BITS: Final = {32: 24, 64: 53}
"""The bits of the whole numbers that a float of so many bits has."""


def convert_pack_lists(
    decoder: Decoder, packing: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    if below is poison.RELATION:
        return below
    detail = plan_path / "detail"
    item = _item(decoder, below.schema, packing.column, detail / "column")
    if not _has_sizes(decoder, packing, detail) or item is None or not _has_padding(decoder, packing, item, detail):
        return poison.RELATION
    return ir.PackLists(
        input=project(below, (ir.Field(index=packing.column, type=below.schema[packing.column]),)),
        length=packing.length,
        padding=packing.padding,
        window_rows=packing.window_rows,
        schema=(List(element=required(item), nullable=False), _NUMBERS, _NUMBERS),
        plan_path=str(plan_path),
    )


def _item(decoder: Decoder, schema: ir.Schema, index: int, plan_path: PlanPath) -> Integer | Float | None:
    """The type of the lists' items; None, once reported, if there are no lists of numbers."""
    type_: Type | None = column(schema, index)
    match type_:
        case List(element=Integer() | Float() as item):
            return item
        case None:
            decoder.problems.add(plan_path, "OUT_OF_RANGE", no_column(schema, index))
        case _ if not is_unknown(type_):
            problem = f"column {index} is {type_}: only lists of integers or floats can be packed"
            decoder.problems.add(plan_path, "NOT_A_LIST", problem)
    return None


def _has_sizes(decoder: Decoder, packing: Any, detail: PlanPath) -> bool:
    wrong = [name for name in ("length", "window_rows") if not 1 <= getattr(packing, name) <= MOST_ITEMS]
    for name in wrong:
        problem = f"{name} must be from 1 to {MOST_ITEMS:,}, not {getattr(packing, name):,}"
        decoder.problems.add(detail / name, "BAD_PACKING", problem)
    return not wrong


def _has_padding(decoder: Decoder, packing: Any, item: Integer | Float, detail: PlanPath) -> bool:
    if isinstance(item, Float):
        least, most = -(1 << _WHOLE_BITS[item.bits]), 1 << _WHOLE_BITS[item.bits]
    else:
        most = (1 << (item.bits - item.signed)) - 1
        least = -most - 1 if item.signed else 0
    if least <= packing.padding <= most:
        return True
    problem = f"the lists have {nullable(item)} items, and none of them is {packing.padding}: choose another padding"
    decoder.problems.add(detail / "padding", "BAD_PACKING", problem)
    return False
