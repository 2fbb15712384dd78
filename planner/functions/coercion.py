"""The conversions that producers leave out, and their costs. Only conversions that DuckDB makes by itself are here.

A conversion loses nothing, with two exceptions that fail with an error at run time: a wide integer where an
implementation wants a narrow one (`substring(s, i64, i64)`), and a string literal where a date or a number belongs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..ir import Literal
from ..ir import types as t
from ..ir.types import Type
from .patterns import ArgumentType, Signature

_DIGITS: Final[dict[tuple[int, bool], int]] = {
    (8, True): 3,
    (16, True): 5,
    (32, True): 10,
    (64, True): 19,
    (8, False): 3,
    (16, False): 5,
    (32, False): 10,
    (64, False): 20,
}
NARROWING: Final = 30
"""The cost of making an integer narrower, at least. A value that does not fit is an error at run time."""

_TEXT: Final = (t.String, t.VarChar, t.FixedChar)
_READABLE: Final = (t.Boolean, t.Integer, t.Float, t.Decimal, t.Date, t.Time, t.Timestamp, t.TimestampTz, t.Uuid)


def same(left: ArgumentType | None, right: ArgumentType | None) -> bool:
    """Tests whether types are equal but for nullability at the top."""
    if left is None or right is None or isinstance(left, Signature) or isinstance(right, Signature):
        return left == right
    return t.nullable(left) == t.nullable(right)


def as_decimal(integer: t.Integer, value: object = None) -> t.Decimal:
    """The narrowest decimal that holds every value of an integer type, or the one value of a literal."""
    digits = len(str(abs(value))) if isinstance(value, int) else _DIGITS[integer.bits, integer.signed]
    return t.Decimal(precision=digits, scale=0, nullable=integer.nullable)


def cost(source: Type, target: Type, value: Literal | None) -> int | None:  # noqa: C901  # a line per pair
    """The cost of converting `source` into `target`, None if the conversion is never implicit. `value` is the literal,
    if the argument is one.
    """
    if same(source, target):
        return 0
    if value is not None and value.value is None:
        return 1
    if value is not None and isinstance(source, _TEXT) and isinstance(target, _READABLE):
        return 20
    match source, target:
        case t.Integer(), t.Integer():
            return _integer_cost(source, target)
        case t.Integer(), t.Decimal(precision=precision, scale=scale):
            fits = as_decimal(source, value and value.value).precision <= precision - scale
            return 6 if fits or precision == 38 else None
        case t.Integer(), t.Float(bits=64):
            return 10
        case t.Float(bits=32), t.Float(bits=64):
            return 1
        case t.Decimal(), t.Decimal():
            return _decimal_cost(source, target)
        case t.Decimal(), t.Float(bits=64):
            return 8
        case ((t.VarChar() | t.FixedChar()), t.String()):
            return 1
        case ((t.VarChar(length=length) | t.FixedChar(length=length)), t.VarChar(length=longer)):
            return 1 if longer >= length else None
        case t.FixedBinary(), t.Binary():
            return 1
        case t.Date(), t.Timestamp():
            return 2
        case t.Date(), t.TimestampTz():
            return 4
        case (
            (t.Timestamp(precision=p), t.Timestamp(precision=q))
            | (t.TimestampTz(precision=p), t.TimestampTz(precision=q))
            | (t.Time(precision=p), t.Time(precision=q))
            | (t.IntervalDay(precision=p), t.IntervalDay(precision=q))
        ):
            return 1 if q >= p else None
        case t.Timestamp(precision=p), t.TimestampTz(precision=q):
            return 3 if q >= p else None
        case ((t.List() | t.Struct() | t.Map()), _):
            return _nested_cost(source, target)
        case _:
            return None


def _nested_cost(source: Type, target: Type) -> int | None:
    these, those = t.types_inside(source), t.types_inside(target)
    if type(source) is not type(target) or len(these) != len(those):
        return None
    costs = [cost(this, that, None) for this, that in zip(these, those, strict=True)]
    return None if None in costs else sum(one for one in costs if one is not None)


def _integer_cost(source: t.Integer, target: t.Integer) -> int:
    widens = target.bits > source.bits and (target.signed or not source.signed)
    return (target.bits // source.bits).bit_length() if widens else NARROWING


def _decimal_cost(source: t.Decimal, target: t.Decimal) -> int | None:
    fits = target.scale >= source.scale and target.precision - target.scale >= source.precision - source.scale
    return 2 if fits or (target.precision == 38 and target.scale >= source.scale) else None


def common(left: Type, right: Type) -> Type | None:
    """The common type of both sides of a comparison, None if there is none. Nullable if either side is."""
    nullable = left.nullable or right.nullable
    wider = _common(left, right) or _common(right, left)
    return replace(wider, nullable=nullable) if wider is not None else None


def _common(left: Type, right: Type) -> Type | None:  # noqa: C901  # a line per pair
    if same(left, right):
        return left
    match left, right:
        case t.Integer(), t.Integer():
            return _common_integer(left, right)
        case t.Integer(), t.Decimal():
            return _common_decimal(as_decimal(left), right)
        case t.Decimal(), t.Decimal():
            return _common_decimal(left, right)
        case ((t.Integer() | t.Decimal() | t.Float()), t.Float()):
            return t.Float(bits=64)
        case ((t.String() | t.VarChar() | t.FixedChar()), t.String()):
            return t.String()
        case ((t.VarChar(length=p) | t.FixedChar(length=p)), (t.VarChar(length=q) | t.FixedChar(length=q))):
            return t.VarChar(length=max(p, q))
        case ((t.FixedBinary() | t.Binary()), (t.FixedBinary() | t.Binary())):
            return t.Binary()
        case t.Date(), (t.Timestamp() | t.TimestampTz()):
            return right
        case ((t.Timestamp(precision=p) | t.TimestampTz(precision=p)), t.TimestampTz(precision=q)):
            return t.TimestampTz(precision=max(p, q))
        case t.Timestamp(precision=p), t.Timestamp(precision=q):
            return t.Timestamp(precision=max(p, q))
        case t.Time(precision=p), t.Time(precision=q):
            return t.Time(precision=max(p, q))
        case t.IntervalDay(precision=p), t.IntervalDay(precision=q):
            return t.IntervalDay(precision=max(p, q))
        case t.List(element=this), t.List(element=that):
            return None if (element := common(this, that)) is None else t.List(element=element)
        case t.Map(key=this, value=this_value), t.Map(key=that, value=that_value):
            key, value = common(this, that), common(this_value, that_value)
            return None if key is None or value is None else t.Map(key=key, value=value)
        case t.Struct(fields=these, names=names), t.Struct(fields=those) if len(these) == len(those):
            fields = [common(*pair) for pair in zip(these, those, strict=True)]
            known = tuple(field for field in fields if field is not None)
            return t.Struct(fields=known, names=names) if len(known) == len(fields) else None
        case _:
            return None


def _common_integer(left: t.Integer, right: t.Integer) -> Type:
    if left.signed == right.signed:
        return t.Integer(bits=max(left.bits, right.bits), signed=left.signed)
    unsigned = left if not left.signed else right
    signed = right if not left.signed else left
    if unsigned.bits == 64:
        return t.Decimal(precision=20, scale=0)
    return t.Integer(bits=max(signed.bits, 2 * unsigned.bits))


def _common_decimal(left: t.Decimal, right: t.Decimal) -> t.Decimal:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return t.Decimal(precision=min(38, whole + scale), scale=scale)
