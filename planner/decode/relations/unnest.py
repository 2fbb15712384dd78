"""Decodes `tidegate.v1.Unnest`."""

from __future__ import annotations

from typing import Any

from ... import ir
from ...ir.building import INT64, columns
from ...ir.types import List, Map, Struct, Type, nullable
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope, column, no_column


def convert_unnest(
    decoder: Decoder, unnest: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    if below is poison.RELATION:
        return below
    at = plan_path / "detail" / "columns"
    if not unnest.columns:
        decoder.problems.add(at, "MISSING", "there is no column to unnest")
        return poison.RELATION
    padded = unnest.outer or len(unnest.columns) > 1
    items: list[Type] = []
    for index in unnest.columns:
        item = _item(decoder, below.schema, index, at)
        if item is None:
            return poison.RELATION
        items.append(nullable(item) if padded else item)
    number = (nullable(INT64) if unnest.outer else INT64,) if unnest.ordinality else ()
    return ir.Unnest(
        input=below,
        kept=columns(below.schema),
        lists=tuple(ir.Field(index=index, type=below.schema[index]) for index in unnest.columns),
        ordinality=unnest.ordinality,
        outer=unnest.outer,
        schema=(*below.schema, *items, *number),
        plan_path=str(plan_path),
    )


def _item(decoder: Decoder, schema: ir.Schema, index: int, plan_path: PlanPath) -> Type | None:
    """The type of a list's items; None, once reported, if there is no list."""
    type_ = column(schema, index)
    match type_:
        case List(element=element):
            return element
        case Map(key=key, value=value):
            return Struct(fields=(key, value), nullable=False)
        case None:
            decoder.problems.add(plan_path, "OUT_OF_RANGE", no_column(schema, index))
        case _ if not is_unknown(type_):
            decoder.problems.add(
                plan_path, "NOT_A_LIST", f"column {index} is {type_}: only lists and maps can be unnested"
            )
    return None
