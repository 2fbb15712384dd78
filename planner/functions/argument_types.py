"""Fits arguments to an implementation, and converts them for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal, localcontext
from typing import Final

from ...operators.core.interrupts import look
from .. import ir
from ..ir import types as t
from ..ir.types import Type
from . import coercion
from .aliases import Argument, type_of
from .derivation import derive
from .patterns import ArgumentType, Bindings, Pattern, Signature, matches
from .registry import Implementation

_TEXTS: Final = (t.String, t.VarChar, t.FixedChar)
PARTS: Final = t.Struct(
    fields=(t.Decimal(precision=38, scale=0, nullable=False), t.Decimal(precision=38, scale=38, nullable=False)),
    nullable=False,
)
"""The whole part and the fraction of a decimal, both of the decimal's sign. A cast takes a decimal apart, or puts it
together again.
"""

_EXACT: Final = (t.Decimal, t.Integer)
_BOTH_PARTS: Final = 76
"""The most digits of a whole part and a fraction together."""


def fit(implementation: Implementation, arguments: Sequence[Argument]) -> tuple[tuple[Type | None, ...], int] | None:
    """The types of the arguments in this implementation, and the cost of converting them; None if they do not fit."""
    if not implementation.takes(len(arguments)):
        return None
    wanted = _wanted(implementation, arguments)
    targets: list[Type | None] = []
    total = 0
    for index, argument in enumerate(arguments):
        look()
        parameter = implementation.parameter(index)
        type_ = type_of(argument)
        if parameter.pattern is None:
            if not isinstance(argument, str) or argument.upper() not in parameter.values:
                return None
            targets.append(None)
            continue
        if type_ is None:
            return None
        if isinstance(type_, Signature):
            targets.append(None)
            continue
        literal = argument if isinstance(argument, ir.Literal) else None
        target = wanted.get(parameter.pattern) or _target(parameter.pattern, type_, literal and literal.value)
        cost = coercion.cost(type_, target, literal)
        if cost is None:
            return None
        total += cost
        targets.append(replace(target, nullable=type_.nullable))
    return tuple(targets), total


def _wanted(implementation: Implementation, arguments: Sequence[Argument]) -> dict[Pattern, Type]:
    """The common type of the arguments that share a pattern with a name in it (`any1`, `decimal<P,S>`)."""
    groups: dict[Pattern, list[Argument]] = {}
    for index, argument in enumerate(arguments):
        pattern = implementation.parameter(index).pattern
        if pattern is not None and (pattern.is_any or pattern.parameters) and pattern.name not in ("any", "func"):
            groups.setdefault(pattern, []).append(argument)
    wanted: dict[Pattern, Type] = {}
    for pattern, members in groups.items():
        common = common_type(members) if len(members) > 1 else None
        if common is not None:
            wanted[pattern] = _target(pattern, common)
    return wanted


def common_type(members: Sequence[Argument]) -> Type | None:
    """The common type of several arguments. Literals that are null or text take the type of the other arguments."""
    types = [(member, type_of(member)) for member in members]
    firm = [type_ for member, type_ in types if not _yields(member, types)]
    common: Type | None = None
    for type_ in firm or [type_ for _, type_ in types]:
        if type_ is None or isinstance(type_, Signature):
            return None
        common = type_ if common is None else coercion.common(common, type_)
        if common is None:
            return None
    return common


def _yields(member: Argument, types: Sequence[tuple[Argument, ArgumentType | None]]) -> bool:
    if not isinstance(member, ir.Literal):
        return False
    return member.value is None or (
        isinstance(member.type, _TEXTS) and any(not isinstance(type_, _TEXTS) for _, type_ in types)
    )


def _target(pattern: Pattern, type_: Type, value: object = None) -> Type:
    """The type of an argument of `type_` where `pattern` is wanted: the type itself, or the nearest type of the
    pattern.
    """
    if pattern.is_any or matches(pattern, type_, Bindings()):
        return type_
    match pattern.name, type_:
        case "decimal", t.Integer():
            return coercion.as_decimal(type_, value)
        case "varchar", t.FixedChar(length=length):
            return t.VarChar(length=length)
        case "precision_timestamp", t.Date():
            return t.Timestamp()
        case "precision_timestamp_tz", t.Date():
            return t.TimestampTz()
        case "precision_timestamp_tz", t.Timestamp(precision=precision):
            return t.TimestampTz(precision=precision)
        case _ if not pattern.parameters:
            return derive(pattern.name, Bindings(), {}) if _concrete(pattern) else type_
        case _:
            return type_


def _concrete(pattern: Pattern) -> bool:
    return pattern.name != "u!geometry" and pattern.name != "func"


def convert(argument: Argument, target: Type | None) -> Argument:
    """The argument as `target`, cast if it has another type. Without a target the argument is an enum value or a
    lambda.
    """
    if target is None:
        return argument.upper() if isinstance(argument, str) else argument
    if isinstance(argument, str | Signature) or coercion.same(type_of(argument), target):
        return argument
    return target if isinstance(argument, Type) else ir.Cast(operand=argument, type=target)


def compared(arguments: Sequence[Argument], converted: Sequence[Argument]) -> tuple[Argument, ...]:
    """The two operands of a comparison, which are `arguments` in their common type. If that is a decimal which has too
    few digits for one of them, operands that do not fit are clamped: they lie beyond all values of the other one.
    """
    common = [type_of(one) for one in converted]
    wide = [_may_not_fit(*pair) for pair in zip(arguments, common, strict=True)]
    if not any(wide):
        return tuple(converted)
    return tuple(map(_clamped, arguments, converted, wide))


def ordered(arguments: Sequence[Argument], converted: Sequence[Argument]) -> tuple[Argument, ...]:
    """Any number of values that are compared with each other, which are `arguments` in their common type; taken apart
    if that is a decimal which has too few digits for one of them. To clamp two costs less.
    """
    if not any(map(_may_not_fit, arguments, map(type_of, converted))):
        return tuple(converted)
    return tuple(one if isinstance(one, str | Signature) else _apart(one) for one in arguments)


def in_one_order(values: Sequence[ir.Expression]) -> Sequence[ir.Expression]:
    """Values that SQL compares with each other: as they are, or taken apart if they are decimals, or decimals and
    integers, without a common type of 38 digits.
    """
    if not _lack_digits(values):
        return values
    return tuple(_apart_expression(one) for one in values)


def _lack_digits(values: Sequence[ir.Expression]) -> bool:
    kinds: list[Type] = []
    for one in values:
        if not kinds or one.type is not kinds[-1]:  # literals of one list share their type
            kinds.append(one.type)
    if not any(isinstance(type_, t.Decimal) for type_ in kinds):
        return False
    common: Type | None = kinds[0]
    for type_ in kinds:
        common = coercion.common(common, type_) if isinstance(type_, _EXACT) and common is not None else None
    return any(_may_not_fit(one, common) for one in values)


def type_of_choice(arguments: Sequence[ir.Expression | str], type_: Type) -> Type:
    """The type of a call with these arguments, whose result shall be of `type_`: taken apart, as they are, if the call
    gives one of them.
    """
    is_apart = isinstance(type_, t.Decimal) and any(_is_apart(one) for one in arguments if not isinstance(one, str))
    return replace(PARTS, nullable=type_.nullable) if is_apart else type_


def together(value: ir.Expression, type_: Type) -> ir.Expression:
    """The value, as a decimal of this type if it is taken apart: an error if it does not fit."""
    return ir.Cast(operand=value, type=type_) if _is_apart(value) and isinstance(type_, t.Decimal) else value


def _is_apart(value: ir.Expression) -> bool:
    return coercion.same(value.type, PARTS)


def _apart(value: ir.Expression | Type) -> ir.Expression | Type:
    return replace(PARTS, nullable=value.nullable) if isinstance(value, Type) else _apart_expression(value)


def _apart_expression(value: ir.Expression) -> ir.Expression:
    parts = replace(PARTS, nullable=value.type.nullable)
    if not isinstance(value, ir.Literal):
        return ir.Cast(operand=_as_decimal(value), type=parts)
    if value.value is None:
        return ir.Literal(value=None, type=parts)
    with localcontext(prec=_BOTH_PARTS):
        exact = Decimal(str(value.value))
        whole = exact.to_integral_value(ROUND_DOWN)
        return ir.Literal(value=(whole, exact - whole), type=parts)


def _as_decimal(value: ir.Expression) -> ir.Expression:
    if not isinstance(value.type, t.Integer):
        return value
    return ir.Cast(operand=value, type=coercion.as_decimal(value.type))


def _may_not_fit(argument: Argument, common: ArgumentType | None) -> bool:
    type_ = type_of(argument)
    if not isinstance(type_, _EXACT) or not isinstance(common, t.Decimal):
        return False
    whole = common.precision - common.scale
    if isinstance(argument, ir.Literal):
        return isinstance(argument.value, Decimal | int) and abs(argument.value) >= 10**whole
    decimal = coercion.as_decimal(type_) if isinstance(type_, t.Integer) else type_
    return decimal.precision - decimal.scale > whole


def _clamped(argument: Argument, converted: Argument, is_wide: bool) -> Argument:
    """The operand, whose value is clamped if it does not fit, and is an error if it is what others are clamped to."""
    type_ = type_of(converted)
    if isinstance(argument, str | Signature | Type) or isinstance(type_, Signature) or type_ is None:
        return converted
    if not is_wide and not (isinstance(type_, t.Decimal) and coercion.same(argument.type, type_)):
        return converted
    return ir.Cast(operand=_as_decimal(argument), type=type_, on_failure=ir.CastFailure.CLAMPED)


def match_types(implementation: Implementation, types: Sequence[ArgumentType | None]) -> Bindings | None:
    """The bindings of the implementation's names for these argument types; None if the types do not fit exactly."""
    bindings = Bindings()
    for index, type_ in enumerate(types):
        pattern = implementation.parameter(index).pattern
        if (pattern is None) != (type_ is None):
            return None
        if pattern is not None and type_ is not None and not matches(pattern, type_, bindings):
            return None
    return bindings


def expressions(arguments: Iterable[Argument]) -> tuple[ir.Expression | str, ...]:
    """The arguments of a binding that was made with expressions, as expressions."""
    return tuple(a for a in arguments if not isinstance(a, Signature))  # type: ignore[misc]


def describe(argument: Argument) -> str:
    """An argument's type as a person would write it; an enum argument's own text."""
    type_ = type_of(argument)
    if type_ is None:
        return str(argument)
    if isinstance(type_, Signature):
        return f"({', '.join(map(str, type_.parameters))}) -> {type_.result}"
    return str(type_)
