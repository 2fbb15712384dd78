"""Literals of every Substrait release, as the planner's literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from functools import reduce
from typing import Final, TypeAlias

from ..ir import Literal
from ..ir import types as t
from ..ir.arrow_types import FINEST, instants
from ..ir.types import Type
from .comparing import either_nullable, same_type, wrong_key
from .declarations.declared_types import MAX_TYPE_DEPTH, Types
from .encoding.message_nodes import Malformed, Message, Nodes
from .plan_path import PlanPath
from .poison import NULL, UNKNOWN, is_unknown
from .problems import Problems

REFUSED: Final[Mapping[str, str]] = {
    "user_defined": "literals of extension types are not supported; cast a plain literal instead",
}

_EXACT: Final = Context(prec=60)
_POISON: Final = Literal(value=None, type=UNKNOWN)

Moment: TypeAlias = t.Time | t.Timestamp | t.TimestampTz


class Literals:
    """Converts the literals of one plan. A broken literal becomes poison once its problem is reported."""

    def __init__(self, nodes: Nodes, problems: Problems, types: Types) -> None:
        self.types = types
        self._nodes = nodes
        self._problems = problems

    def convert(self, number: int, plan_path: PlanPath, depth: int = 0, *, untyped: bool = False) -> Literal:
        """The literal `number`. With `untyped`, a null without a type is `NULL`; it is reported otherwise. Recurses, at
        most `MAX_TYPE_DEPTH` levels.
        """
        if not number:
            return self.problem(plan_path, "MISSING", "a literal is missing here")
        if depth > MAX_TYPE_DEPTH:
            return self.problem(plan_path, "TOO_DEEP", f"a literal that nests deeper than {MAX_TYPE_DEPTH} levels")
        try:
            message = self._nodes.take(number)
        except Malformed as error:
            return self.problem(plan_path, "MALFORMED", str(error))
        return _evident(message) or self._converted(message, plan_path, depth, untyped=untyped)

    def run(
        self, numbers: Sequence[int], plan_path: PlanPath, field: str, *, untyped: bool = False
    ) -> tuple[Literal, ...] | None:
        """The literals that the expressions of a repeated field are, read at once; None if that cannot be."""
        try:
            messages = self._nodes.take_literals(numbers) if len(numbers) > 1 and all(numbers) else None
        except Malformed:
            return None  # taken one by one, each is refused at its place
        if messages is None:
            return None
        literals = []
        for index, message in enumerate(messages):
            literal = _evident(message)
            if literal is None:
                literal = self._converted(message, plan_path.at(field, index) / "literal", 0, untyped=untyped)
            literals.append(literal)
        return tuple(literals)

    def _converted(self, message: Message, plan_path: PlanPath, depth: int, *, untyped: bool) -> Literal:
        kind = message.WhichOneof("literal_type")
        if kind is None:
            return self.problem(plan_path, "MISSING", "a literal is missing here")
        if kind in REFUSED:
            return self.problem(plan_path / kind, "UNSUPPORTED_LITERAL", REFUSED[kind])
        body = getattr(message, kind)
        if kind == "null" and self._has_no_type(body):
            return NULL if untyped else self.untyped(plan_path / kind)
        literal = CONVERTERS[kind](self, body, plan_path / kind, depth)
        if is_unknown(literal.type):
            return literal
        return self._finish(literal, message, plan_path)

    def _has_no_type(self, number: int) -> bool:
        try:
            return not number or self._nodes.peek(number).WhichOneof("kind") is None
        except Malformed:
            return False  # its own problem is told

    def untyped(self, plan_path: PlanPath) -> Literal:
        """Poison, for a null whose type nothing tells, which is reported."""
        return self.problem(plan_path, "MISSING", "a null without a type stands here, and its place tells no type")

    def _finish(self, literal: Literal, message: Message, plan_path: PlanPath) -> Literal:
        own = t.nullable(literal.type) if message.nullable or literal.value is None else t.required(literal.type)
        type_ = self.types.variation(message.type_variation_reference, own, plan_path)
        value = literal.value
        if isinstance(type_, t.Integer) and isinstance(value, int):
            if not type_.signed and type_.bits == 64:  # written as the i64 with the same bits
                value %= 1 << 64
            lowest = -(1 << (type_.bits - 1)) if type_.signed else 0
            if not 0 <= value - lowest < 1 << type_.bits:
                return self.problem(plan_path, "BAD_LITERAL", f"{value} is not a {replace(type_, nullable=False)}")
        if is_unknown(self.types.carried(type_, plan_path)):
            return _POISON
        return Literal(value=value, type=type_)

    def row(
        self, numbers: Sequence[int], plan_path: PlanPath, field: str, depth: int, *, untyped: bool = False
    ) -> tuple[Literal, ...]:
        return tuple(self.convert(n, plan_path.at(field, i), depth, untyped=untyped) for i, n in enumerate(numbers))

    def problem(self, plan_path: PlanPath, reason: str, message: str) -> Literal:
        self._problems.add(plan_path, reason, message)
        return _POISON

    def decimal(self, value: bytes, precision: int, scale: int, plan_path: PlanPath) -> Literal:
        type_ = self.types.decimal(precision, scale, plan_path)
        if is_unknown(type_):
            return _POISON
        if len(value) != 16:
            return self.problem(plan_path, "BAD_LITERAL", f"a decimal literal must have 16 bytes, not {len(value)}")
        unscaled = int.from_bytes(value, "little", signed=True)
        if abs(unscaled) >= 10**precision:
            return self.problem(plan_path, "BAD_LITERAL", f"{unscaled} has more than {precision} digits")
        return Literal(value=Decimal(unscaled).scaleb(-scale, _EXACT), type=type_)

    def instant(self, value: int, make: Callable[..., Moment], precision: int, plan_path: PlanPath) -> Literal:
        checked = self.types.precision(precision, plan_path)
        if checked is None:
            return _POISON
        type_ = make(precision=checked)
        known = instants(type_) if checked <= FINEST else None  # a finer type is refused where its values are used
        if known is not None and value not in known:
            message = f"{value} is no {type_}, which has values from {known[0]} to {known[-1]}"
            return self.problem(plan_path, "BAD_LITERAL", message)
        return Literal(value=value, type=type_)

    def days(self, body: Message, plan_path: PlanPath) -> tuple[tuple[int, int, int], int] | None:
        """An interval of days and seconds, and its precision.

        Subseconds once were microseconds: an interval without subseconds and without a precision has precision 6, as
        then. A finer precision becomes 6 where the value stays the same.
        """
        if body.HasField("microseconds"):
            precision, subseconds = 6, body.microseconds
        else:
            precision, subseconds = body.precision or (0 if body.subseconds else 6), body.subseconds
        if self.types.precision(precision, plan_path) is None:
            return None
        total = body.seconds * 10**precision + subseconds
        if precision > _MICROS and total % 10 ** (precision - _MICROS) == 0:  # DuckDB's intervals have microseconds
            precision, total = _MICROS, total // 10 ** (precision - _MICROS)
        if abs(total) * 10**_NANOS >= 2**63 * 10**precision:
            problem = "an interval of more than 292 years of seconds: make days of them"
            self.problem(plan_path, "BAD_LITERAL", problem)
            return None
        return (0, body.days, total), precision


_MICROS: Final = 6
_NANOS: Final = 9
"""Arrow carries an interval's seconds as nanoseconds in 64 bits."""

Converter = Callable[[Literals, Message, PlanPath, int], Literal]


def _plain(type_: Type) -> Converter:
    required = t.required(type_)
    return lambda _, body, __, ___: Literal(value=body, type=required)


def _precise(make: Callable[..., Moment]) -> Converter:
    return lambda literals, body, plan_path, _: literals.instant(body.value, make, body.precision, plan_path)


def _microseconds(make: Callable[..., Moment]) -> Converter:
    return lambda literals, body, plan_path, _: literals.instant(body, make, 6, plan_path)


def _sized(make: Callable[..., Type]) -> Converter:
    """A literal whose length is its type's length."""

    def convert(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
        length = literals.types.length(len(body), plan_path)
        return _POISON if length is None else Literal(value=body, type=make(length=length))

    return convert


def _var_char(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    length = literals.types.length(body.length, plan_path)
    if length is None:
        return _POISON
    if len(body.value) > length:
        message = f"a string of {len(body.value)} characters is not a varchar({length})"
        return literals.problem(plan_path, "BAD_LITERAL", message)
    return Literal(value=body.value, type=t.VarChar(length=length))


def _decimal(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    return literals.decimal(body.value, body.precision, body.scale, plan_path)


def _uuid(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    if len(body) != 16:
        return literals.problem(plan_path, "BAD_LITERAL", f"a uuid must have 16 bytes, not {len(body)}")
    return Literal(value=body, type=t.Uuid())


def _interval_year(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    months = _months(literals, body, plan_path)
    return _POISON if months is None else Literal(value=(months, 0, 0), type=t.IntervalYear())


def _months(literals: Literals, body: Message, plan_path: PlanPath) -> int | None:
    """The months of years and months; None, once reported, if an interval cannot have so many."""
    months: int = body.years * 12 + body.months
    if not -(2**31) <= months < 2**31:
        problem = f"an interval of {months:,} months; it can have {2**31 - 1:,} at most"
        literals.problem(plan_path, "BAD_LITERAL", problem)
        return None
    return months


def _interval_day(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    interval = literals.days(body, plan_path)
    return _POISON if interval is None else Literal(value=interval[0], type=t.IntervalDay(precision=interval[1]))


def _interval_compound(literals: Literals, body: Message, plan_path: PlanPath, _: int) -> Literal:
    interval = literals.days(body.interval_day_to_second, plan_path / "interval_day_to_second")
    months = _months(literals, body.interval_year_to_month, plan_path / "interval_year_to_month")
    if interval is None or months is None:
        return _POISON
    (_, days, subseconds), precision = interval
    return Literal(value=(months, days, subseconds), type=t.IntervalCompound(precision=precision))


def _struct(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    fields = literals.row(body.fields, plan_path, "fields", depth + 1)
    if any(is_unknown(field.type) for field in fields):
        return _POISON
    return Literal(
        value=tuple(field.value for field in fields), type=t.Struct(fields=tuple(field.type for field in fields))
    )


def _list(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    values = literals.row(body.values, plan_path, "values", depth + 1)
    element = _common(literals, values, plan_path, "elements")
    return Literal(value=tuple(value.value for value in values), type=t.List(element=element)) if element else _POISON


def _map(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    at = [plan_path.at("key_values", i) for i in range(len(body.key_values))]
    keys = [literals.convert(e.key, p / "key", depth + 1) for e, p in zip(body.key_values, at, strict=True)]
    values = [literals.convert(e.value, p / "value", depth + 1) for e, p in zip(body.key_values, at, strict=True)]
    key = _common(literals, keys, plan_path, "keys")
    value = _common(literals, values, plan_path, "values")
    if key is None or value is None:
        return _POISON
    wrong = wrong_key(enumerate(literal.value for literal in keys), key)
    if wrong is not None:
        return literals.problem(at[wrong[0]] / "key", "BAD_LITERAL", wrong[1])
    pairs = tuple((k.value, v.value) for k, v in zip(keys, values, strict=True))
    return Literal(value=pairs, type=t.Map(key=key, value=value))


def _common(literals: Literals, items: Sequence[Literal], plan_path: PlanPath, what: str) -> Type | None:
    """The one type of all items, nullable if any item's is; None, once reported, if there is no such type."""
    types = [literal.type for literal in items]
    if any(map(is_unknown, types)):
        return None
    if not types:
        literals.problem(
            plan_path, "BAD_LITERAL", f"there are no {what} to derive the type from; use the empty literal"
        )
        return None
    odd = next((type_ for type_ in types if not same_type(types[0], type_)), None)
    if odd is not None:
        message = f"all {what} must have the same type, not {types[0]} and {odd}"
        literals.problem(plan_path, "MIXED_TYPES", message)
        return None
    return reduce(either_nullable, types)


def _empty_list(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    element = literals.types.convert(body.type, plan_path / "type", depth)
    return _POISON if is_unknown(element) else Literal(value=(), type=t.List(element=element))


def _empty_map(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    key = literals.types.convert(body.key, plan_path / "key", depth)
    value = literals.types.convert(body.value, plan_path / "value", depth)
    return _POISON if is_unknown(key) or is_unknown(value) else Literal(value=(), type=t.Map(key=key, value=value))


def _null(literals: Literals, body: Message, plan_path: PlanPath, depth: int) -> Literal:
    return Literal(value=None, type=literals.types.convert(body, plan_path, depth))


_WHOLE: Final[Mapping[str, Type]] = {
    "boolean": t.Boolean(),
    "i32": t.Integer(bits=32),
    "i64": t.Integer(bits=64),
    "fp32": t.Float(bits=32),
    "fp64": t.Float(bits=64),
    "string": t.String(),
    "binary": t.Binary(),
    "date": t.Date(),
}
"""Literals of which every value that protobuf can carry is a value of the type."""

_EVIDENT: Final = {
    (kind, nullable): t.nullable(type_) if nullable else t.required(type_)
    for kind, type_ in _WHOLE.items()
    for nullable in (False, True)
}


def _evident(message: Message) -> Literal | None:
    """The literal, if its type and value need no look at the rest of the plan. Most need none."""
    kind = message.WhichOneof("literal_type")
    type_ = None if message.type_variation_reference else _EVIDENT.get((kind, message.nullable))
    return None if type_ is None else Literal(value=getattr(message, kind), type=type_)


CONVERTERS: Final[Mapping[str, Converter]] = {
    **{kind: _plain(type_) for kind, type_ in _WHOLE.items()},
    "i8": _plain(t.Integer(bits=8)),
    "i16": _plain(t.Integer(bits=16)),
    "interval_year_to_month": _interval_year,
    "interval_day_to_second": _interval_day,
    "interval_compound": _interval_compound,
    "fixed_char": _sized(t.FixedChar),
    "var_char": _var_char,
    "fixed_binary": _sized(t.FixedBinary),
    "decimal": _decimal,
    "precision_time": _precise(t.Time),
    "precision_timestamp": _precise(t.Timestamp),
    "precision_timestamp_tz": _precise(t.TimestampTz),
    "timestamp": _microseconds(t.Timestamp),
    "time": _microseconds(t.Time),
    "timestamp_tz": _microseconds(t.TimestampTz),
    "old_precision_timestamp": _microseconds(t.Timestamp),
    "old_precision_timestamp_tz": _microseconds(t.TimestampTz),
    "struct": _struct,
    "map": _map,
    "uuid": _uuid,
    "list": _list,
    "empty_list": _empty_list,
    "empty_map": _empty_map,
    "null": _null,
}
