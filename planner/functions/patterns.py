"""The type patterns of extension files: `decimal<P1,S1>`, `any1?`, `list<any1>`, `func<any1 -> boolean?>`.

A pattern is matched against argument types, which binds its names; a result pattern is then filled in from the
bindings. A result may begin with a small program (`prec = min(P1 + 1, 38)`); `derivation` runs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

from ...proto.errors import PlanError, Problem
from ..ir import types as t
from ..ir.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The type of a lambda that is passed to a function."""

    parameters: tuple[Type, ...]
    result: Type


ArgumentType: TypeAlias = Type | Signature


def is_remembered(type_: ArgumentType | None) -> bool:
    """False for the types that nothing is remembered by."""
    return not (isinstance(type_, Signature) or t.is_nested(type_))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A type pattern. `name` is in lower case; `parameters` are patterns, or for numbers a name or a digit string.

    A `func` pattern has its parameters first and its result last.
    """

    name: str
    nullable: bool = False
    parameters: tuple[Pattern, ...] = ()

    @property
    def is_any(self) -> bool:
        return self.name == "any" or _ANY.fullmatch(self.name) is not None


@dataclass(slots=True)
class Bindings:
    """The bindings of a match: `any1` to types (nullable if any of its arguments was), `P1` to numbers."""

    types: dict[str, Type] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


_ANY: Final = re.compile(r"any\d+")
_TOKEN: Final = re.compile(r"\s*(->|[A-Za-z_!][\w!]*|\d+|[<>,?()])")

_SIMPLE: Final[dict[str, Type]] = {
    "boolean": t.Boolean(),
    "i8": t.Integer(bits=8),
    "i16": t.Integer(bits=16),
    "i32": t.Integer(bits=32),
    "i64": t.Integer(bits=64),
    "u!u8": t.Integer(bits=8, signed=False),
    "u!u16": t.Integer(bits=16, signed=False),
    "u!u32": t.Integer(bits=32, signed=False),
    "u!u64": t.Integer(bits=64, signed=False),
    "fp32": t.Float(bits=32),
    "fp64": t.Float(bits=64),
    "string": t.String(),
    "binary": t.Binary(),
    "date": t.Date(),
    "timestamp": t.Timestamp(precision=6),
    "timestamp_tz": t.TimestampTz(precision=6),
    "time": t.Time(precision=6),
    "interval_year": t.IntervalYear(),
    "uuid": t.Uuid(),
}
_LENGTH: Final[dict[str, type[t.VarChar | t.FixedChar | t.FixedBinary]]] = {
    "varchar": t.VarChar,
    "fixedchar": t.FixedChar,
    "fixedbinary": t.FixedBinary,
}
_PRECISION: Final[dict[str, type[t.Time | t.Timestamp | t.TimestampTz | t.IntervalDay | t.IntervalCompound]]] = {
    "precision_time": t.Time,
    "precision_timestamp": t.Timestamp,
    "precision_timestamp_tz": t.TimestampTz,
    "interval_day": t.IntervalDay,
    "interval_compound": t.IntervalCompound,
}


@cache
def parse(text: str) -> Pattern:
    """Reads one pattern in the extension files' own spelling, upper or lower case."""
    tokens = _TOKEN.findall(text)
    pattern, rest = _parse(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"not a type pattern: {text!r}")
    return pattern


def _parse(tokens: Sequence[str], at: int) -> tuple[Pattern, int]:
    name = tokens[at]
    at += 1
    if name == "(":  # the parameter list of a func with several
        raise ValueError("a function pattern with several parameters")
    nullable = at < len(tokens) and tokens[at] == "?"
    at += nullable
    parameters: list[Pattern] = []
    if at < len(tokens) and tokens[at] == "<":
        while tokens[at] != ">":
            parameter, at = _parse(tokens, at + 1)
            parameters.append(parameter)
        at += 1
    if at < len(tokens) and tokens[at] == "?":
        nullable, at = True, at + 1
    known = name.lower() if parameters or name.lower() in _SIMPLE or _ANY.fullmatch(name.lower()) else name
    return Pattern(name="any" if name.lower() == "any" else known, nullable=nullable, parameters=tuple(parameters)), at


def matches(pattern: Pattern, type_: ArgumentType, bindings: Bindings) -> bool:
    """Tests whether `type_` is of this pattern, whatever its nullability, and binds the pattern's names."""
    if isinstance(type_, Signature):
        return _matches_signature(pattern, type_, bindings)
    if pattern.name == "any":
        return True
    if pattern.is_any:
        bound = bindings.types.get(pattern.name, type_)
        bindings.types[pattern.name] = t.nullable(bound) if type_.nullable else bound
        return t.nullable(bound) == t.nullable(type_)
    match type_:
        case t.List(element=element):
            return pattern.name == "list" and matches(pattern.parameters[0], element, bindings)
        case t.Map(key=key, value=value):
            return (
                pattern.name == "map"
                and matches(pattern.parameters[0], key, bindings)
                and matches(pattern.parameters[1], value, bindings)
            )
        case t.Decimal(precision=precision, scale=scale):
            return pattern.name == "decimal" and _bind(pattern.parameters, (precision, scale), bindings)
        case t.VarChar(length=number) | t.FixedChar(length=number) | t.FixedBinary(length=number):
            return _LENGTH.get(pattern.name) is type(type_) and _bind(pattern.parameters, (number,), bindings)
        case (
            t.Time(precision=number)
            | t.Timestamp(precision=number)
            | t.TimestampTz(precision=number)
            | t.IntervalDay(precision=number)
            | t.IntervalCompound(precision=number)
        ):
            if pattern.name in _SIMPLE:
                return _SIMPLE[pattern.name] == t.nullable(type_)
            return _PRECISION.get(pattern.name) is type(type_) and _bind(pattern.parameters, (number,), bindings)
        case _:
            return _SIMPLE.get(pattern.name) == t.nullable(type_)


def _matches_signature(pattern: Pattern, signature: Signature, bindings: Bindings) -> bool:
    *parameters, result = pattern.parameters or (pattern,)
    return (
        pattern.name == "func"
        and len(parameters) == len(signature.parameters)
        and all(matches(p, a, bindings) for p, a in zip(parameters, signature.parameters, strict=True))
        and matches(result, signature.result, bindings)
    )


def _bind(parameters: Sequence[Pattern], numbers: Sequence[int], bindings: Bindings) -> bool:
    for parameter, number in zip(parameters, numbers, strict=True):
        if parameter.name.isdigit():
            if int(parameter.name) != number:
                return False
        elif bindings.numbers.setdefault(parameter.name.upper(), number) != number:
            return False
    return True


def fill(pattern: Pattern, bindings: Bindings, numbers: Mapping[str, int], *, nested: bool = False) -> Type:
    """The type of a result pattern. `numbers` are the results of the pattern's program.

    An `any1` inside another type is as nullable as the type bound to it; at the top the pattern decides.
    """

    def number(parameter: Pattern) -> int:
        if parameter.name.isdigit():
            return int(parameter.name)
        return numbers[parameter.name] if parameter.name in numbers else bindings.numbers[parameter.name.upper()]

    name, nullable, parameters = pattern.name, pattern.nullable, pattern.parameters
    if pattern.is_any:
        bound = bindings.types[name]
        return t.nullable(bound) if nullable or (nested and bound.nullable) else t.required(bound)
    if name == "list":
        return t.List(element=fill(parameters[0], bindings, numbers, nested=True), nullable=nullable)
    if name == "map":
        key, value = (fill(parameter, bindings, numbers, nested=True) for parameter in parameters)
        return t.Map(key=key, value=value, nullable=nullable)
    if name == "struct":
        fields = tuple(fill(parameter, bindings, numbers, nested=True) for parameter in parameters)
        return t.Struct(fields=fields, nullable=nullable)
    if name == "decimal":
        return t.Decimal(precision=number(parameters[0]), scale=number(parameters[1]), nullable=nullable)
    if name in _LENGTH:
        return _LENGTH[name](length=number(parameters[0]), nullable=nullable)
    if name in _PRECISION:
        return _PRECISION[name](precision=number(parameters[0]), nullable=nullable)
    simple = _SIMPLE.get(name)
    if simple is None:
        shown = name.removeprefix("u!")
        raise PlanError(
            Problem(
                place="", reason="UNSUPPORTED_FUNCTION", message=f"the result has type {shown}, which is not supported"
            )
        )
    return t.nullable(simple) if nullable else t.required(simple)
