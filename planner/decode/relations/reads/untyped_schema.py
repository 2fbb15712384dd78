"""The columns of a read that has names without types: the source's schema tells the types, if it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from .....operators.arrays.casts import plain
from .....operators.sources.formats.matching import listed
from .... import ir
from ....ir.from_arrow import type_of
from ....ir.types import Type
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from .local_files import file_item

if TYPE_CHECKING:
    from ...decoder import Decoder

_REASON = "UNKNOWN_TYPES"


def is_untyped(base: Message) -> bool:
    return bool(base.names) and not base.struct.types


def types_of_source(decoder: Decoder, message: Message, plan_path: PlanPath) -> ir.Schema | None:
    """The types of the columns that a read without types names; None, once reported, if they are not known."""
    schema = _schema(decoder, message)
    if schema is None:
        problem = (
            "the columns have names and no types: declare the types, or bind the table when the task is made "
            "(tables=), so that its schema tells them"
        )
        decoder.problems.add(plan_path / "struct", _REASON, problem)
        return None
    types = [_type(decoder, name, schema, plan_path / "names") for name in message.base_schema.names]
    known = tuple(type_ for type_ in types if type_ is not None)
    return known if len(known) == len(types) else None


def _schema(decoder: Decoder, message: Message) -> pa.Schema | None:
    match message.WhichOneof("read_type"):
        case "named_table":
            return decoder.schemas.table(".".join(message.named_table.names))
        case "local_files" if message.local_files.items:
            return decoder.schemas.files([file_item(message.local_files.items[0])])
        case _:
            return None


def _type(decoder: Decoder, name: str, schema: pa.Schema, plan_path: PlanPath) -> Type | None:
    columns = schema.get_all_field_indices(name)
    if len(columns) != 1:
        there = f"{'several columns' if columns else 'no column'} {name!r}; there are: {listed(schema.names)}"
        problem = f"the columns have names and no types, and the source has {there}"
        decoder.problems.add(plan_path, _REASON, problem)
        return None
    field = schema.field(columns[0])
    type_ = type_of(field.with_type(plain(field.type)))
    if type_ is None:
        problem = f"column {name!r} is {field.type}, which is no Substrait type: declare the column's type"
        decoder.problems.add(plan_path, _REASON, problem)
    return type_
