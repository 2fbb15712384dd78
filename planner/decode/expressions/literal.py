"""`Expression.literal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ..plan_path import Place
from ..scope import Scope

if TYPE_CHECKING:
    from ..decoder import Decoder, Steps


def convert_literal(decoder: Decoder, number: int, place: Place, _: Scope) -> Steps[ir.Expression]:
    return decoder.literals.convert(number, place)
    yield  # a converter is a generator, also where it asks for nothing
