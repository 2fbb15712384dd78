"""Decodes `Expression.scalar_function`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ... import ir
from ...ir import tree
from ...ir.types import nullable
from .. import poison
from ..comparing import same_type
from ..declarations.extensions import Declared
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..function_calls import IS_NULL, Argument, bind_scalar, declared_function, read_arguments, read_options
from ..plan_path import PlanPath
from ..poison import is_unknown
from ..scope import Scope


def convert_scalar_function(
    decoder: Decoder, message: Message, plan_path: PlanPath, scope: Scope
) -> Steps[ir.Expression]:
    declared = declared_function(decoder, message.function_reference, plan_path)
    written = yield from read_arguments(decoder, message, plan_path, scope, untyped=True)
    arguments, nulls = _with_types(decoder, written, plan_path)
    options = read_options(decoder, message, plan_path)
    output = decoder.types.optional(message.output_type, plan_path / "output_type")
    if declared is None:
        return poison.EXPRESSION
    if decoder.habits.not_like_is_not_equal and _is_not_like(declared, arguments):
        sentence = "the producer writes NOT LIKE as not_equal; this pattern means NOT LIKE, and Tidegate runs NOT LIKE"
        decoder.problems.warn(plan_path, sentence)
        declared = replace(declared, name="!~~")
    if decoder.habits.has_constant_or_null and declared.name == "constant_or_null":
        return _constant_or_null(decoder, arguments, plan_path)
    call = bind_scalar(decoder, declared, arguments, plan_path, options=options, output=output)
    return call if not nulls or is_unknown(call.type) or _has_one_type(call) else decoder.literals.untyped(plan_path)


def _with_types(
    decoder: Decoder, arguments: Sequence[Argument], plan_path: PlanPath
) -> tuple[Sequence[Argument], Sequence[ir.Expression]]:
    """The arguments, whose nulls without a type have that of the others, and these nulls: reported if the others have
    several types.
    """
    if not any(argument is poison.NULL for argument in arguments):
        return arguments, ()
    types = [one.type for one in arguments if not isinstance(one, str) and one is not poison.NULL]
    if not types or not all(same_type(types[0], type_) for type_ in types):
        null: ir.Expression = decoder.literals.untyped(plan_path)
    else:
        null = ir.Literal(value=None, type=nullable(types[0]))
    return [null if argument is poison.NULL else argument for argument in arguments], (null,)


def _has_one_type(call: ir.Expression) -> bool:
    """Tests whether the function that was bound takes all of its arguments as one type, so that this is a null's."""
    operands = [*tree.operands(call)]
    if len(operands) == 1:  # the opposite of a call, or a call whose result is cast
        call, operands = operands[0], [*tree.operands(operands[0])]
    types = [operand.type for operand in operands]
    return isinstance(call, ir.Call) and len(types) > 1 and all(same_type(types[0], type_) for type_ in types)


def _constant_or_null(decoder: Decoder, arguments: Sequence[Argument], plan_path: PlanPath) -> ir.Expression:
    """The first argument, or null if any other one is. DuckDB's optimizer makes such calls of conditions."""
    match arguments:
        case (ir.Literal() as constant, *others) if others and all(not isinstance(other, str) for other in others):
            type_ = nullable(constant.type)
            null = ir.Literal(value=None, type=type_)
            nulls = [(bind_scalar(decoder, IS_NULL, [other], plan_path), null) for other in others]
            return ir.IfThen(clauses=tuple(nulls), otherwise=constant, type=type_)
        case _:
            problem = "constant_or_null takes a literal, and the values that make it null"
            decoder.problems.add(plan_path, "NO_MATCHING_FUNCTION", problem)
            return poison.EXPRESSION


def _is_not_like(declared: Declared, arguments: Sequence[Argument]) -> bool:
    """Tests whether a `not_equal` can only be a pattern match. DuckDB turns patterns with a `%` at one end or both into
    other functions, so the patterns that remain have a `%` inside too; plain text hardly looks like that.
    """
    match arguments:
        case (_, ir.Literal(value=str(pattern))) if declared.name.partition(":")[0] == "not_equal":
            inside = pattern.strip("%")
            return "%" in inside and pattern != inside
        case _:
            return False
