"""Decodes the masks of reads: the columns that a read gives on, and the fields of structs in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .... import ir
from ....ir import types as t
from ....ir.building import project
from ... import poison
from ...declarations.declared_types import MAX_TYPE_DEPTH
from ...decoder import Decoder
from ...encoding.message_nodes import Malformed, Message
from ...function_calls import IS_NULL, bind_scalar
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import column, no_column

_REFUSED: Final = {
    "list": "masks of lists are not supported; read the column, and use functions of lists in a projection",
    "map": "masks of maps are not supported; read the column, and take the values of keys in a projection",
}


def masked(decoder: Decoder, message: Message, relation: ir.Relation, plan_path: PlanPath) -> ir.Relation:
    """The columns that the mask of a read names, in the mask's order: producers count on that order."""
    if not message.HasField("projection") or relation is poison.RELATION:
        return relation
    keeps_structs = message.projection.maintain_singular_struct
    at = plan_path / "projection" / "select"
    columns: list[ir.Expression] = []
    for index, item in enumerate(message.projection.select.struct_items):
        where = at.at("struct_items", index)
        type_ = column(relation.schema, item.field)
        if type_ is None:
            decoder.problems.add(where / "field", "OUT_OF_RANGE", no_column(relation.schema, item.field))
        whole = ir.Field(index=item.field, type=type_ or poison.UNKNOWN)
        columns.append(_inside(decoder, item.child, whole, where / "child", keeps_structs=keeps_structs))
    return project(relation, columns, str(plan_path / "projection"))


def _inside(
    decoder: Decoder, number: int, value: ir.Field, plan_path: PlanPath, *, keeps_structs: bool
) -> ir.Expression:
    """What the mask `number` keeps of a value; all of it if there is no mask. Recurses as deep as types nest."""
    if not number or is_unknown(value.type):
        return value
    body = _struct_mask(decoder, number, value, plan_path)
    if body is None:
        return poison.EXPRESSION
    struct, kept = value.type, []
    assert isinstance(struct, t.Struct)
    is_removed = len(body.struct_items) == 1 and not keeps_structs  # its only field takes its place, null where it is
    for index, item in enumerate(body.struct_items):
        where = (plan_path / "struct").at("struct_items", index)
        type_ = column(struct.fields, item.field)
        if type_ is None:
            problem = f"there is no field {item.field}; {struct} has {len(struct.fields)} fields, counted from 0"
            decoder.problems.add(where / "field", "OUT_OF_RANGE", problem)
            return poison.EXPRESSION
        if is_removed and struct.nullable:
            type_ = t.nullable(type_)
        field = replace(value, steps=(*value.steps, item.field), type=type_)
        kept.append(_inside(decoder, item.child, field, where / "child", keeps_structs=keeps_structs))
    if any(is_unknown(field.type) for field in kept):
        return poison.EXPRESSION
    if is_removed:
        return kept[0]
    names = tuple(struct.names[item.field] for item in body.struct_items) if struct.names else ()
    return _packed(decoder, value, kept, names, plan_path)


def _struct_mask(decoder: Decoder, number: int, value: ir.Field, plan_path: PlanPath) -> Message | None:
    """The mask of a struct; None, once reported, if it is none or if the value is no struct."""
    problem = ("TOO_DEEP", f"a mask that nests deeper than {MAX_TYPE_DEPTH} levels")
    if len(value.steps) <= MAX_TYPE_DEPTH:
        try:
            message = decoder.nodes.take(number)
        except Malformed as error:
            decoder.problems.add(plan_path, "MALFORMED", str(error))
            return None
        kind = message.WhichOneof("type")
        if kind is None:
            problem = ("MISSING", "a mask must say what it keeps: struct")
        elif kind in _REFUSED:
            problem = ("UNSUPPORTED_MASK", _REFUSED[kind])
        elif not isinstance(value.type, t.Struct):
            problem = ("BAD_REFERENCE", f"{value.type} has no fields to choose among")
        elif not message.struct.struct_items:
            problem = ("UNSUPPORTED_MASK", "a mask must keep at least one field of the struct")
        else:
            return message.struct
    decoder.problems.add(plan_path, *problem)
    return None


def _packed(
    decoder: Decoder, value: ir.Field, kept: list[ir.Expression], names: tuple[str, ...], plan_path: PlanPath
) -> ir.Expression:
    """A struct of the kept fields, null where the whole struct is."""
    type_ = t.Struct(fields=tuple(field.type for field in kept), names=names, nullable=value.type.nullable)
    packed = ir.Nested(construct=ir.Construct.STRUCT, items=tuple(kept), type=type_)
    if not type_.nullable:
        return packed
    is_null = bind_scalar(decoder, IS_NULL, [value], plan_path)
    null = ir.Literal(value=None, type=type_)
    return ir.IfThen(clauses=((is_null, null),), otherwise=packed, type=type_)
