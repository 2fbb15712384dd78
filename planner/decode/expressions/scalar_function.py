"""`Expression.scalar_function`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from .. import poison
from ..calls import bind_scalar, declared_function, read_arguments, read_options
from ..nodes import Message
from ..place import Place
from ..scope import Scope

if TYPE_CHECKING:
    from ..decoder import Decoder, Steps


def convert_scalar_function(decoder: Decoder, message: Message, place: Place, scope: Scope) -> Steps[ir.Expression]:
    declared = declared_function(decoder, message.function_reference, place)
    arguments = yield from read_arguments(decoder, message, place, scope)
    options = read_options(decoder, message, place)
    output = decoder.types.optional(message.output_type, place / "output_type")
    if declared is None:
        return poison.EXPRESSION
    return bind_scalar(decoder, declared, arguments, place, options=options, output=output)
