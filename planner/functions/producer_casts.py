"""Casts that a producer means otherwise than DuckDB does them: a function of ours is applied to the operand first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .. import ir
from ..ir import types as t
from ..ir.types import Type

_NUMBERS: Final = "extension:io.tidegate:functions_numbers"
_MOMENTS: Final = "extension:io.tidegate:functions_moments"
_TEXTS: Final = "extension:io.tidegate:functions_text"
_READ: Final[dict[type, str]] = {
    t.Boolean: "boolean",
    t.Integer: "integer",
    t.Float: "float",
    t.Decimal: "decimal",
    t.Date: "date",
    t.Timestamp: "timestamp",
    t.TimestampTz: "timestamp",
}


@dataclass(frozen=True, slots=True)
class BeforeCast:
    """A function of an extension, over the operand of a cast and these constants."""

    name: str
    extension: str
    constants: tuple[ir.Literal, ...] = ()


def before_cast(dialect: str, source: Type, target: Type) -> BeforeCast | None:
    """The function that a producer's cast applies to its operand first; None if there is none."""
    return _datafusion(source, target) if dialect == "datafusion" else None


def differs_inside(dialect: str, source: Type, target: Type) -> tuple[Type, Type] | None:
    """The types of a value inside of lists, structs and maps whose cast the producer means otherwise; None if there is
    none. A float that is too large for fewer bits is an error there.
    """
    for one, other in _inside(source, target):
        if before_cast(dialect, one, other) is not None and not (
            isinstance(one, t.Float) and isinstance(other, t.Float)
        ):
            return one, other
        if (difference := differs_inside(dialect, one, other)) is not None:
            return difference
    return None


def reads_moments_inside(source: Type, target: Type) -> tuple[Type, Type] | None:
    """The types of a text inside of structs, maps and lists of lists that is cast to a moment; None if there is none.
    DuckDB reads words there that are no moments: `infinity`. A list of texts is cast text by text.
    """
    for one, other in _inside(source, target):
        for these, those in _at_any_depth(one, other):
            if t.is_text(these) and t.is_moment(those) and not (isinstance(source, t.List) and these is one):
                return these, those
    return None


def _at_any_depth(source: Type, target: Type) -> Iterator[tuple[Type, Type]]:
    yield source, target
    for pair in _inside(source, target):
        yield from _at_any_depth(*pair)


def _inside(source: Type, target: Type) -> Iterator[tuple[Type, Type]]:
    match source, target:
        case t.List(element=one), t.List(element=other):
            yield one, other
        case t.Struct(fields=these), t.Struct(fields=those):
            yield from zip(these, those, strict=False)
        case t.Map(), t.Map():
            yield from ((source.key, target.key), (source.value, target.value))
        case _:
            return


def _datafusion(source: Type, target: Type) -> BeforeCast | None:
    """DataFusion cuts numbers and moments off where others round. It reads fewer texts as numbers than DuckDB does, and
    writes floats as Rust does, moments as ISO 8601 does.
    """
    match source, target:
        case ((t.Float() | t.Decimal()), t.Integer()):
            return BeforeCast("trunc", _NUMBERS)
        case t.Float(bits=64), t.Float(bits=32):
            return BeforeCast("single", _NUMBERS)
        case t.Float(), (t.String() | t.VarChar()):
            return BeforeCast("float_text", _NUMBERS)
        case ((t.Date() | t.Timestamp() | t.TimestampTz()), (t.String() | t.VarChar())):
            return BeforeCast("iso_text", _MOMENTS)
        case ((t.Time() | t.Timestamp() | t.TimestampTz()), (t.Time() | t.Timestamp() | t.TimestampTz())):
            if target.precision < source.precision:
                name = "cut_down" if isinstance(target, t.Time) else "cut"
                return BeforeCast(name, _MOMENTS, (ir.Literal(value=target.precision, type=_COUNT),))
            return None
        case ((t.String() | t.VarChar()), t.Time(precision=precision)):
            return BeforeCast(
                "readable", _TEXTS, (ir.Literal(value=f"time_{precision}", type=t.String(nullable=False)),)
            )
        case ((t.String() | t.VarChar()), _) if (kind := _READ.get(type(target))) is not None:
            return BeforeCast("readable", _TEXTS, (ir.Literal(value=kind, type=t.String(nullable=False)),))
        case _:
            return None


_COUNT: Final = t.Integer(bits=32, nullable=False)
