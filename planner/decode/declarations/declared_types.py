"""Types of every Substrait release, as the planner's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ....proto.errors import PlanError
from ...ir import types as t
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from ..encoding.message_nodes import Malformed, Message, Nodes
from ..plan_path import PlanPath
from ..poison import UNKNOWN, is_unknown
from ..problems import Problems
from .extensions import Extensions
from .habits import Habits

MAX_TYPE_DEPTH: Final = 64
"""The most levels of lists, maps and structs in types and in literals."""

_NULLABILITY_REQUIRED: Final = 2
_UNSIGNED: Final = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
_NUMBERS: Final = "the supported extension types are u8 to u64"
_INSTEAD: Final = {"null": "give the null a type, as in CAST(NULL AS BIGINT)"}
_MAX_SECOND_PRECISION: Final = 12

REFUSED: Final[Mapping[str, str]] = {
    "func": "a column cannot have a function type; lambdas declare their types themselves",
    "unbound": "an unbound type has no meaning: the plan must give the type itself",
    "user_defined_type_reference": "old references to user-defined types are not supported: use user_defined",
}


class Types:
    """Converts the types of one plan. A broken type becomes `UNKNOWN` once its problem is reported."""

    def __init__(self, nodes: Nodes, problems: Problems, extensions: Extensions, habits: Habits) -> None:
        self.aliases: dict[int, tuple[int, PlanPath]] = {}
        self._nodes = nodes
        self._problems = problems
        self._extensions = extensions
        self._habits = habits

    def convert(self, number: int, plan_path: PlanPath, depth: int = 0) -> Type:
        """The type `number`. Recurses, at most `MAX_TYPE_DEPTH` levels."""
        if not number:
            return self.problem(plan_path, "MISSING", "a type is missing here")
        if depth > MAX_TYPE_DEPTH:
            return self.problem(plan_path, "TOO_DEEP", f"a type that nests deeper than {MAX_TYPE_DEPTH} levels")
        try:
            message = self._nodes.take(number)
        except Malformed as error:
            return self.problem(plan_path, "MALFORMED", str(error))
        kind = message.WhichOneof("kind")
        if kind is None:
            return self.problem(plan_path, "MISSING", "a type is missing here")
        if kind in REFUSED:
            return self.problem(plan_path / kind, "UNSUPPORTED_TYPE", REFUSED[kind])
        body = getattr(message, kind)
        type_ = CONVERTERS[kind](self, body, plan_path / kind, depth)
        if not is_unknown(type_) and kind != "alias":
            type_ = self.variation(body.type_variation_reference, type_, plan_path / kind)
        if is_unknown(type_):
            return type_
        return t.required(type_) if body.nullability == _NULLABILITY_REQUIRED else t.nullable(type_)

    def carried(self, type_: Type, plan_path: PlanPath) -> Type:
        """The type of a value that the plan makes; `UNKNOWN`, once reported, if no value can have it. A type that a
        read declares need not be carried: a column that nothing uses is never read.
        """
        if not is_unknown(type_):
            try:
                sql_type(type_)
            except PlanError as error:
                for problem in error.problems:
                    self.problem(plan_path, problem.reason, problem.message)
                return UNKNOWN
        return type_

    def optional(self, number: int, plan_path: PlanPath) -> Type | None:
        """The type `number`, or None if `number` is 0."""
        return self.convert(number, plan_path) if number else None

    def row(self, numbers: Sequence[int], plan_path: PlanPath, depth: int = 0) -> tuple[Type, ...]:
        """The types of a struct at `plan_path`."""
        return tuple(self.convert(n, plan_path.at("types", i), depth) for i, n in enumerate(numbers))

    def problem(self, plan_path: PlanPath, reason: str, message: str) -> Type:
        self._problems.add(plan_path, reason, message)
        return UNKNOWN

    def variation(self, reference: int, type_: Type, plan_path: PlanPath) -> Type:
        """`type_` in the variation that the plan gives: another physical form of the same values. `UNKNOWN`, once
        reported, if the plan does not declare the variation, and its producer is not known to leave that out.
        """
        if not reference:
            return type_
        declared = self._extensions.variations.get(reference)
        if declared is not None:
            self._problems.warn(plan_path, f"the type variation {declared.name!r} is read as the plain type")
        elif reference not in self._habits.undeclared_variations:
            return self.problem(plan_path, "UNKNOWN_ANCHOR", f"the plan declares no type variation {reference}")
        elif reference == self._habits.unsigned_variation and isinstance(type_, t.Integer):
            return replace(type_, signed=False)
        return type_

    def alias(self, anchor: int, plan_path: PlanPath, depth: int) -> Type:
        if anchor not in self.aliases:
            return self.problem(plan_path, "UNKNOWN_ANCHOR", f"the plan declares no type alias {anchor}")
        number, at = self.aliases[anchor]
        return self.convert(number, at, depth + 1)

    def user_defined(self, reference: int, plan_path: PlanPath) -> Type:
        declared = self._extensions.types.get(reference)
        if declared is None:
            return self.problem(plan_path, "UNKNOWN_ANCHOR", f"the plan declares no extension type {reference}")
        bits = _UNSIGNED.get(declared.name.lower())
        if bits is None:
            message = f"the extension type {declared.name!r} is not supported; {_INSTEAD.get(declared.name, _NUMBERS)}"
            return self.problem(plan_path, "UNSUPPORTED_TYPE", message)
        return t.Integer(bits=bits, signed=False)

    def decimal(self, precision: int, scale: int, plan_path: PlanPath) -> Type:
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            message = (
                f"decimal({precision},{scale}): the precision must be from 1 to 38, and the scale from 0 to the "
                "precision"
            )
            return self.problem(plan_path, "BAD_TYPE", message)
        return t.Decimal(precision=precision, scale=scale)

    def length(self, length: int, plan_path: PlanPath) -> int | None:
        if length >= 1:
            return length
        self.problem(plan_path, "BAD_TYPE", f"a length must be at least 1, not {length}")
        return None

    def precision(self, precision: int, plan_path: PlanPath) -> int | None:
        if 0 <= precision <= _MAX_SECOND_PRECISION:
            return precision
        message = f"a precision must be 0 to {_MAX_SECOND_PRECISION} places of a second, not {precision}"
        self.problem(plan_path, "BAD_TYPE", message)
        return None


Converter = Callable[[Types, Message, PlanPath, int], Type]


def _plain(type_: Type) -> Converter:
    return lambda *_: type_


def _sized(make: Callable[..., Type]) -> Converter:
    def convert(types: Types, body: Message, plan_path: PlanPath, _: int) -> Type:
        length = types.length(body.length, plan_path)
        return UNKNOWN if length is None else make(length=length)

    return convert


def _precise(make: Callable[..., Type]) -> Converter:
    def convert(types: Types, body: Message, plan_path: PlanPath, _: int) -> Type:
        precision = types.precision(body.precision, plan_path)
        return UNKNOWN if precision is None else make(precision=precision)

    return convert


def _interval_day(types: Types, body: Message, plan_path: PlanPath, _: int) -> Type:
    # the precision came later; until then it was 6
    precision = types.precision(body.precision if body.HasField("precision") else 6, plan_path)
    return UNKNOWN if precision is None else t.IntervalDay(precision=precision)


def _decimal(types: Types, body: Message, plan_path: PlanPath, _: int) -> Type:
    return types.decimal(body.precision, body.scale, plan_path)


def _struct(types: Types, body: Message, plan_path: PlanPath, depth: int) -> Type:
    return _whole(t.Struct(fields=types.row(body.types, plan_path, depth + 1)))


def _list(types: Types, body: Message, plan_path: PlanPath, depth: int) -> Type:
    return _whole(t.List(element=types.convert(body.type, plan_path / "type", depth + 1)))


def _map(types: Types, body: Message, plan_path: PlanPath, depth: int) -> Type:
    key = types.convert(body.key, plan_path / "key", depth + 1)
    value = types.convert(body.value, plan_path / "value", depth + 1)
    return _whole(t.Map(key=key, value=value))


def _whole(type_: t.Struct | t.List | t.Map) -> Type:
    """The type itself, or poison if any of its parts is poison."""
    match type_:
        case t.Struct(fields=parts):
            pass
        case t.List(element=element):
            parts = (element,)
        case t.Map(key=key, value=value):
            parts = (key, value)
    return UNKNOWN if any(map(is_unknown, parts)) else type_


def _user_defined(types: Types, body: Message, plan_path: PlanPath, _: int) -> Type:
    return types.user_defined(body.type_reference, plan_path)


def _alias(types: Types, body: Message, plan_path: PlanPath, depth: int) -> Type:
    return types.alias(body.type_alias_reference, plan_path, depth)


CONVERTERS: Final[Mapping[str, Converter]] = {
    "bool": _plain(t.Boolean()),
    "i8": _plain(t.Integer(bits=8)),
    "i16": _plain(t.Integer(bits=16)),
    "i32": _plain(t.Integer(bits=32)),
    "i64": _plain(t.Integer(bits=64)),
    "fp32": _plain(t.Float(bits=32)),
    "fp64": _plain(t.Float(bits=64)),
    "string": _plain(t.String()),
    "binary": _plain(t.Binary()),
    "date": _plain(t.Date()),
    "uuid": _plain(t.Uuid()),
    "interval_year": _plain(t.IntervalYear()),
    "interval_day": _interval_day,
    "interval_compound": _precise(t.IntervalCompound),
    "fixed_char": _sized(t.FixedChar),
    "varchar": _sized(t.VarChar),
    "fixed_binary": _sized(t.FixedBinary),
    "decimal": _decimal,
    "precision_time": _precise(t.Time),
    "precision_timestamp": _precise(t.Timestamp),
    "precision_timestamp_tz": _precise(t.TimestampTz),
    "timestamp": _plain(t.Timestamp()),
    "time": _plain(t.Time()),
    "timestamp_tz": _plain(t.TimestampTz()),
    "struct": _struct,
    "list": _list,
    "map": _map,
    "user_defined": _user_defined,
    "alias": _alias,
}
