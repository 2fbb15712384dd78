"""The result types of functions: derived by the official rules, or declared by the plan in their place.

The plan's declared result type is kept: if it differs from the derived type, rendering casts to it, and a value that
does not fit is an error. The type may be a decimal with more places or of fewer digits, a text of another length, a
moment with other places, or another width of an integer that counts something. Functions that the plan takes from no
extension are their producer's own, and may have any type of the derived type's family that keeps the digits and the
parts of a value. Every other type is a problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir import types as t
from ..ir.types import Type
from . import coercion, registry
from .aliases import Argument, type_of
from .argument_types import match_types
from .derivation import derive
from .patterns import ArgumentType, Bindings, Signature, is_remembered
from .registry import Implementation

_NUMBERS: Final = (t.Integer, t.Float, t.Decimal)
_TEXTS: Final = (t.String, t.VarChar, t.FixedChar)
_DATES: Final = (t.Date, t.Timestamp, t.TimestampTz)
_INTEGERS: Final = frozenset({"i8", "i16", "i32", "i64"})
_BYTES: Final = (t.Binary, t.FixedBinary)
MOMENTS: Final = (t.Time, t.Timestamp, t.TimestampTz)
_SIZED: Final = (_TEXTS, _BYTES, *((kind,) for kind in (*MOMENTS, t.IntervalDay, t.IntervalCompound)))
_FAMILIES: Final[tuple[tuple[type[Type], ...], ...]] = (_NUMBERS, _TEXTS, _DATES, _BYTES)


def derived_type(function: ir.Function, arguments: Sequence[Argument]) -> Type:
    """The result type that a bound function derives from its converted arguments, before the plan's own declaration."""
    constants = tuple(literal_values(implementation_of(function), arguments).items())
    types = tuple(type_of(argument) for argument in arguments)
    return (_remembered if all(map(is_remembered, types)) else _derived)(function, types, constants)


def _derived(
    function: ir.Function, types: tuple[ArgumentType | None, ...], constants: tuple[tuple[str, int], ...]
) -> Type:
    implementation = implementation_of(function)
    bindings = match_types(implementation, types)
    if bindings is None:
        raise ValueError(f"{function.signature} does not take {', '.join(map(str, types))}")
    return result_type(implementation, types, bindings, dict(constants))


_remembered: Final = lru_cache(maxsize=4096)(_derived)


@lru_cache(maxsize=1024)
def implementation_of(function: ir.Function) -> Implementation:
    """The official implementation behind a bound function."""
    file = function.urn.rpartition(":")[2]
    for implementation in registry.implementations(function.kind, function.name, file):
        if implementation.signature == function.signature:
            return implementation
    raise ValueError(f"{function.urn} has no {function.signature}")


def result_type(
    implementation: Implementation,
    types: Sequence[ArgumentType | None],
    bindings: Bindings,
    constants: Mapping[str, int],
) -> Type:
    derived = derive(implementation.result, bindings, constants)
    if implementation.nullability == "MIRROR" and any(
        type_.nullable for type_ in types if type_ is not None and not isinstance(type_, Signature)
    ):
        return t.nullable(derived)
    return derived


def literal_values(implementation: Implementation, arguments: Sequence[Argument]) -> dict[str, int]:
    """The values of whole-number literals, by argument name. Some result types depend on such a value."""
    constants: dict[str, int] = {}
    for index, argument in enumerate(arguments):
        if isinstance(argument, ir.Cast):
            argument = argument.operand  # noqa: PLW2901  # a literal converted to the parameter's type
        if isinstance(argument, ir.Literal) and isinstance(argument.value, int):
            constants[implementation.parameter(index).name] = argument.value
    return constants


def castable(source: Type, target: Type) -> bool:
    """Tests whether a result of one type may be declared as the other: both numbers, texts, dates or bytes."""
    return any(isinstance(source, family) and isinstance(target, family) for family in _FAMILIES) or (
        type(source) is type(target)
    )


def fits_family(source: Type, target: Type) -> bool:
    """Tests whether a producer may declare a value of one type as the other: a type of its family that does not drop a
    fraction, or the time of a day.
    """
    match source, target:
        case t.Float(), t.Integer() | t.Decimal():
            return False
        case t.Decimal(scale=scale), t.Integer():
            return scale == 0
        case ((t.Timestamp() | t.TimestampTz()), t.Date()):
            return False
        case _:
            return castable(source, target)


def reconcile(
    implementation: Implementation, derived: Type, output: Type | None, plan_path: str, *, official: bool
) -> Type:
    """The plan's declared type if there is one, nullable also if the derived type is. The fields of structs have the
    names of the arguments' fields, since a declared type has none. `official` says that the plan means this
    implementation, not a function of its producer.
    """
    if output is None:
        return derived
    if not (_may_be_declared(implementation, derived, output) if official else fits_family(derived, output)):
        raise PlanError(
            Problem(
                place=plan_path,
                reason="WRONG_RESULT_TYPE",
                message=f"{implementation.signature} gives {derived}, but the plan declares {output}",
            )
        )
    if isinstance(derived, t.IntervalDay) and isinstance(output, t.IntervalDay):
        output = replace(output, precision=min(derived.precision, output.precision))  # a finer one changes no value
    output = t.named_like(output, derived)
    return t.nullable(output) if derived.nullable else output


def _may_be_declared(implementation: Implementation, derived: Type, output: Type) -> bool:
    """Tests whether a plan may declare the implementation's result as another type of the same kind: one that keeps
    every value that it holds, and any width of an integer that counts something and is not made of integers.
    """
    counted = isinstance(derived, t.Integer) and isinstance(output, t.Integer)
    return _keeps(derived, output) or (counted and _counts(implementation))


def _keeps(derived: Type, output: Type) -> bool:
    """Tests whether a value that fits into `output` is there as it was: nothing is rounded, and no part is dropped.
    The digits of a decimal, the length of a text and the places of a moment may be any: what does not fit is an error
    at run time.
    """
    match derived, output:
        case t.Decimal(), t.Decimal():
            return output.scale >= derived.scale
        case t.Struct(fields=these), t.Struct(fields=those):
            return len(these) == len(those) and all(map(_keeps_inside, these, those))
        case t.List(element=this), t.List(element=that):
            return _keeps_inside(this, that)
        case t.Map(key=key, value=value), t.Map(key=other_key, value=other_value):
            return _keeps_inside(key, other_key) and _keeps_inside(value, other_value)
        case _:
            return coercion.same(derived, output) or any(
                isinstance(derived, family) and isinstance(output, family) for family in _SIZED
            )


def _keeps_inside(derived: Type, output: Type) -> bool:
    """The same of a value inside another, which no one looks at when it runs."""
    if isinstance(derived, MOMENTS) and isinstance(output, MOMENTS) and output.precision < derived.precision:
        return False
    if isinstance(derived, _TEXTS) and isinstance(output, t.VarChar | t.FixedChar):
        return coercion.same(derived, output)
    return _keeps(derived, output)


def _counts(implementation: Implementation) -> bool:
    patterns = (parameter.pattern for parameter in implementation.parameters)
    return implementation.result.strip().rstrip("?") in _INTEGERS and not any(
        pattern is not None and pattern.name in _INTEGERS for pattern in patterns
    )
