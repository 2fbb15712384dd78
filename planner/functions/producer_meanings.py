"""Functions and casts that a producer writes as Substrait does, and means otherwise: one table for each producer.

A meaning holds for names without an extension alone: a plan that names an extension means the extension's function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .. import ir
from ..ir import types as t
from ..ir.types import Type
from .aliases import Alias, Argument

_BACKSLASH: Final = ir.Literal(value="\\", type=t.String(nullable=False))


def _with_escape(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of a LIKE in which a backslash escapes a character, unless the query names another escape."""
    match arguments:
        case (value, pattern):
            return value, pattern, _BACKSLASH
        case (value, pattern, ir.Literal(value=escape)):
            return value, pattern, arguments[2] if escape else _BACKSLASH
        case _:
            return None


def _swapped(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return (arguments[1], arguments[0]) if len(arguments) == 2 else None


def _alone(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return tuple(arguments) if len(arguments) == 1 else None


def _exact(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return ("EXACT", *arguments) if len(arguments) == 1 else None


_INSENSITIVE: Final = {"case_sensitivity": ("CASE_INSENSITIVE",)}

_DATAFUSION: Final[Mapping[ir.FunctionKind, Mapping[str, tuple[Alias, ...]]]] = {
    ir.FunctionKind.SCALAR: {
        "concat": (Alias(name="concat", options={"null_handling": ("IGNORE_NULLS",)}),),
        "greatest": (Alias(name="greatest_skip_null"),),
        "least": (Alias(name="least_skip_null"),),
        "like": (Alias(name="like_escaped", arrange=_with_escape),),
        "ilike": (Alias(name="like_escaped", arrange=_with_escape, options=_INSENSITIVE),),
        "logb": (Alias(name="logb", arrange=_swapped), Alias(name="log10", arrange=_alone)),
        "initcap": (Alias(name="initcap_words"),),
        "substring": (Alias(name="substring", options={"negative_start": ("LEFT_OF_BEGINNING",)}),),
        "upper": (Alias(name="upper_full"),),
        "regex_match": (Alias(name="regexp_like"),),
        "regex_imatch": (Alias(name="regexp_like", options=_INSENSITIVE),),
        "regex_not_match": (Alias(name="regexp_like", negated=True),),
        "regex_not_imatch": (Alias(name="regexp_like", options=_INSENSITIVE, negated=True),),
        "regexp_replace": (Alias(name="regexp_replace_flagged"),),
    },
    ir.FunctionKind.AGGREGATE: {
        "corr": (Alias(name="corr_or_null"),),
        "median": (Alias(name="median", arrange=_exact),),
    },
    ir.FunctionKind.WINDOW: {
        "corr": (Alias(name="corr_or_null"),),
        "median": (Alias(name="median", arrange=_exact),),
    },
}

_MEANINGS: Final = {"datafusion": _DATAFUSION}


def meanings(dialect: str, kind: ir.FunctionKind, name: str) -> tuple[Alias, ...]:
    """The official forms of a name as this producer means it; none if the producer means Substrait's function."""
    return _MEANINGS[dialect][kind].get(name, ()) if dialect else ()


def before_cast(dialect: str, source: Type, target: Type) -> tuple[str, str] | None:
    """The function, with its extension, that a producer's cast applies to its operand first; None if there is none.

    DataFusion cuts fractions off where Substrait leaves the rounding open, and writes moments as ISO 8601 does.
    """
    match dialect, source, target:
        case "datafusion", (t.Float() | t.Decimal()), t.Integer():
            return "trunc", "extension:io.tidegate:functions_numbers"
        case "datafusion", t.Timestamp(), (t.String() | t.VarChar()):
            return "iso_text", "extension:io.tidegate:functions_moments"
        case _:
            return None
