"""The columns of a loop, as messages declare them, and the check of their agreement."""

from __future__ import annotations

from .... import ir
from ...comparing import same_type
from ...declarations.declared_types import Types
from ...decoder import Decoder
from ...encoding.message_nodes import Malformed
from ...encoding.protobuf_nodes import WireNodes
from ...plan_path import PlanPath


def declared_columns(decoder: Decoder, declared: bytes, plan_path: PlanPath) -> ir.Schema | None:
    """The columns of a serialized type; None, once reported, if the type is not a row's."""
    nodes = WireNodes(declared, "substrait.Type")
    types = Types(nodes, decoder.problems, decoder.extensions, decoder.habits)
    try:
        row = nodes.take(0)
    except Malformed as error:
        decoder.problems.add(plan_path, "MALFORMED", f"not a valid substrait.Type: {error}")
        return None
    if row.WhichOneof("kind") != "struct" or not row.struct.types:
        decoder.problems.add(
            plan_path, "WRONG_TYPE", "the columns of a loop's rows must be a struct of at least one type"
        )
        return None
    return types.row(row.struct.types, plan_path / "struct")


def agree(decoder: Decoder, schema: ir.Schema, other: ir.Schema, plan_path: PlanPath) -> bool:
    """Tests whether `other` are the loop's columns, as far as they are known, and reports a difference."""
    if len(schema) != len(other):
        problem = f"{len(other)} columns, but the loop's rows have {len(schema)}"
        decoder.problems.add(plan_path, "WRONG_WIDTH", problem)
        return False
    for index, (wanted, type_) in enumerate(zip(schema, other, strict=True)):
        if not same_type(wanted, type_):
            problem = f"column {index} is {type_}, but in the loop's rows {wanted}: add a cast"
            decoder.problems.add(plan_path, "MIXED_TYPES", problem)
            return False
    return True
