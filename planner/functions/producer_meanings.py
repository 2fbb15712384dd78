"""Functions that a producer writes as Substrait does, and means otherwise: one table for each producer.

A meaning holds for names without an extension alone: a plan that names an extension means the extension's function.
`_OF_EXTENSIONS` has the exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .. import ir
from ..ir import types as t
from .aliases import Alias, Argument, type_of

_SHORT_BITS: Final = 32
_SHORT_NUMBER: Final = 9
"""The digits of numbers that all have fewer than 32 bits."""
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


def _interval_behind(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of a sum whose interval is written before its moment."""
    match arguments:
        case (interval, moment) if isinstance(type_of(interval), t.IntervalCompound) and t.is_moment(type_of(moment)):
            return moment, interval
        case _:
            return None


def _alone(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return tuple(arguments) if len(arguments) == 1 else None


def _exact(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return ("EXACT", *arguments) if len(arguments) == 1 else None


def _of_decimals(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return tuple(arguments) if any(isinstance(type_of(argument), t.Decimal) for argument in arguments) else None


def _of_lists(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The argument, if it is a list of lists."""
    match arguments:
        case (one,) if isinstance(type_ := type_of(one), t.List) and isinstance(type_.element, t.List):
            return (one,)
        case _:
            return None


def _epoch(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The moment whose seconds since 1970 `date_part` asks for, with their fraction."""
    return _part_of(arguments, "epoch")


def _nanosecond(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    return _part_of(arguments, "nanosecond")


def _part_of(arguments: Sequence[Argument], part: str) -> tuple[Argument, ...] | None:
    match arguments:
        case (ir.Literal(value=str(word)), moment) if word.lower().removesuffix("s") == part:
            return (moment,)
        case _:
            return None


def _of_long_numbers(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of a function of a text and numbers of characters, if one of these may have more than 32 bits."""
    return tuple(arguments) if any(map(_is_long, arguments[1:])) else None


def _is_long(argument: Argument) -> bool:
    match argument:
        case ir.Literal(value=int(number)):
            return len(str(abs(number))) > _SHORT_NUMBER
        case ir.Literal():
            return False
        case _:
            return isinstance(type_ := type_of(argument), t.Integer) and type_.bits > _SHORT_BITS


_INSENSITIVE: Final = {"case_sensitivity": ("CASE_INSENSITIVE",)}

_AGGREGATE: Final[Mapping[str, tuple[Alias, ...]]] = {
    "avg": (Alias(name="avg_cut", arrange=_of_decimals),),
    "corr": (Alias(name="corr_or_null"),),
    "median": (Alias(name="median_decimal", arrange=_of_decimals), Alias(name="median", arrange=_exact)),
}
_DATAFUSION: Final[Mapping[ir.FunctionKind, Mapping[str, tuple[Alias, ...]]]] = {
    ir.FunctionKind.SCALAR: {
        "add": (Alias(name="add", arrange=_interval_behind),),
        "concat": (Alias(name="concat", options={"null_handling": ("IGNORE_NULLS",)}),),
        "greatest": (Alias(name="greatest_skip_null"),),
        "least": (Alias(name="least_skip_null"),),
        "like": (Alias(name="like_escaped", arrange=_with_escape),),
        "ilike": (Alias(name="like_escaped", arrange=_with_escape, options=_INSENSITIVE),),
        "logb": (Alias(name="logb", arrange=_swapped), Alias(name="log10", arrange=_alone)),
        "initcap": (Alias(name="initcap_words"),),
        "date_part": (Alias(name="epoch", arrange=_epoch), Alias(name="nanosecond", arrange=_nanosecond)),
        "cardinality": (Alias(name="cardinality_inside", arrange=_of_lists),),
        "datepart": (Alias(name="epoch", arrange=_epoch), Alias(name="nanosecond", arrange=_nanosecond)),
        "divide": (Alias(name="divide_cut", arrange=_of_decimals),),
        "left": (Alias(name="left_long", arrange=_of_long_numbers), Alias(name="left")),
        "right": (Alias(name="right_long", arrange=_of_long_numbers), Alias(name="right")),
        "bitwise_shift_left": (Alias(name="shift_left_wrapped"),),
        "bitwise_shift_right": (Alias(name="shift_right_wrapped"),),
        "substring": (
            Alias(name="substring_long", arrange=_of_long_numbers),
            Alias(name="substring", options={"negative_start": ("LEFT_OF_BEGINNING",)}),
        ),
        "sqrt": (Alias(name="sqrt", options={"on_domain_error": ("ERROR",)}),),
        "lower": (Alias(name="lower_full"),),
        "upper": (Alias(name="upper_full"),),
        "regex_match": (Alias(name="regexp_like"),),
        "regex_imatch": (Alias(name="regexp_like", options=_INSENSITIVE),),
        "regex_not_match": (Alias(name="regexp_like", negated=True),),
        "regex_not_imatch": (Alias(name="regexp_like", options=_INSENSITIVE, negated=True),),
        "regexp_replace": (Alias(name="regexp_replace_flagged"),),
    },
    ir.FunctionKind.AGGREGATE: _AGGREGATE,
    ir.FunctionKind.WINDOW: _AGGREGATE,
}

_DUCKDB_AGGREGATE: Final[Mapping[str, tuple[Alias, ...]]] = {"corr": (Alias(name="corr_or_null"),)}
_DUCKDB: Final[Mapping[ir.FunctionKind, Mapping[str, tuple[Alias, ...]]]] = {
    ir.FunctionKind.SCALAR: {
        "concat": (Alias(name="concat", options={"null_handling": ("IGNORE_NULLS",)}),),
        "greatest": (Alias(name="greatest_skip_null"),),
        "least": (Alias(name="least_skip_null"),),
        "subtract": (Alias(name="negate", arrange=_alone),),
        "^": (Alias(name="power"),),
        "**": (Alias(name="power"),),
        "~": (Alias(name="bitwise_not"),),
    },
    ir.FunctionKind.AGGREGATE: _DUCKDB_AGGREGATE,
    ir.FunctionKind.WINDOW: _DUCKDB_AGGREGATE,
}
_IBIS: Final[Mapping[ir.FunctionKind, Mapping[str, tuple[Alias, ...]]]] = {
    ir.FunctionKind.SCALAR: {"substring": (Alias(name="substring_from_zero"),)},
    ir.FunctionKind.AGGREGATE: {},
    ir.FunctionKind.WINDOW: {},
}

_MEANINGS: Final = {"datafusion": _DATAFUSION, "duckdb": _DUCKDB, "ibis-substrait": _IBIS}
_OF_EXTENSIONS: Final = {"duckdb": frozenset({"corr"}), "ibis-substrait": frozenset({"substring"})}
"""Functions that a producer takes from an extension, and means in its own way all the same."""


_ORDERING: Final = frozenset({"lt", "lte", "gt", "gte", "greatest", "least"})
"""Functions that depend on the order of values."""


def orders_nulls_inside(dialect: str, name: str | None = None) -> bool:
    """Tests whether the producer orders lists and structs with nulls inside otherwise than DuckDB does, which takes
    such a null for the greatest value: in this function, or in a sort that has nulls before other values.
    """
    return dialect == "datafusion" and (name is None or name in _ORDERING)


def means_otherwise(dialect: str, name: str, declared: str | None) -> bool:
    """Tests whether the producer's own meaning counts for a function, which may have the extension `declared`."""
    return not declared or name in _OF_EXTENSIONS.get(dialect, ())


def meanings(dialect: str, kind: ir.FunctionKind, name: str) -> tuple[Alias, ...]:
    """The official forms of a name as this producer means it; none if the producer means Substrait's function."""
    return _MEANINGS[dialect][kind].get(name, ()) if dialect else ()
