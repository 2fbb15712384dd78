"""Producers' own function names, in one table: the official name of each, and the order of its arguments.

An official name with the official number of arguments never comes here. `SCALAR` and the other tables are by base name,
in lower case; several forms of one name differ in their number of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast, get_args

from .. import ir
from ..ir import types as t
from ..ir.types import Type
from .patterns import Signature

Argument: TypeAlias = ir.Expression | Type | Signature | str
"""An expression, or just the expression's type; a plain string is an enum argument."""

_EXPRESSIONS: Final = frozenset(get_args(ir.Expression))

Arrange: TypeAlias = Callable[[Sequence[Argument]], tuple[Argument, ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An official form of a producer's name. `arrange` gives the official arguments, or None if the arguments do not
    fit; with `negated`, the result is the opposite of the official function's.
    """

    name: str
    arrange: Arrange = tuple
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    negated: bool = False


def _text(argument: Argument) -> str | None:
    """The text of an enum argument or of a string literal."""
    if isinstance(argument, str):
        return argument
    return argument.value if isinstance(argument, ir.Literal) and isinstance(argument.value, str) else None


def _drop_escape(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of `like(value, pattern, escape)`. The official function has no escape, so only an absent escape
    fits.
    """
    if len(arguments) != 3:
        return None
    escape = arguments[2]
    absent = isinstance(escape, ir.Literal) and escape.value in (None, "")
    return tuple(arguments[:2]) if absent else None


_UNITS: Final[dict[str, tuple[str, ...]]] = {
    "YEAR": ("YEAR",),
    "ISOYEAR": ("ISO_YEAR",),
    "QUARTER": ("QUARTER", "ONE"),
    "MONTH": ("MONTH", "ONE"),
    "WEEK": ("ISO_WEEK", "ONE"),
    "DAY": ("DAY", "ONE"),
    "DOY": ("DAY_OF_YEAR", "ONE"),
    "DOW": ("SUNDAY_DAY_OF_WEEK", "ZERO"),
    "ISODOW": ("MONDAY_DAY_OF_WEEK", "ONE"),
    "HOUR": ("HOUR",),
    "MINUTE": ("MINUTE",),
    "SECOND": ("SECOND",),
    "MILLISECOND": ("MILLISECOND",),
    "MICROSECOND": ("MICROSECOND",),
    "EPOCH": ("UNIX_TIME",),
}
"""The fields of SQL's `date_part`. Several need Substrait's indexing (a first day counted as one, Sunday as zero)."""


_INDEXED: Final = frozenset({"DAY_OF_YEAR", "MONDAY_DAY_OF_WEEK", "SUNDAY_DAY_OF_WEEK", "ISO_WEEK", "US_WEEK"})
"""Substrait's own components that need an indexing. Some producers leave the indexing out and count from one."""


def _date_part(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of `date_part('YEAR', x)`, and of `extract` with an enum that lacks its indexing."""
    if len(arguments) not in (2, 3):
        return None
    named = (_text(arguments[0]) or "").upper()
    unit = _UNITS.get(named.removesuffix("S")) or ((named, "ONE") if named in _INDEXED else None)
    return (*unit, *_zoned(arguments[1:])) if unit else None


def _zoned(values: Sequence[Argument]) -> Sequence[Argument]:
    """The values with UTC, the task's time zone, behind an instant that names no zone."""
    type_ = type_of(values[0])
    utc = ir.Literal(value="UTC", type=t.String(nullable=False))
    return (*values, utc) if len(values) == 1 and isinstance(type_, t.TimestampTz) else values


def type_of(argument: Argument) -> Type | Signature | None:
    """The type of an argument, None for an enum argument."""
    match argument:
        case str():
            return None
        case ir.Lambda():
            return Signature(parameters=argument.parameters, result=argument.body.type)
        case _ if type(argument) in _EXPRESSIONS:
            return cast("ir.Expression", argument).type
        case _:
            return cast("Type | Signature", argument)


def _part(unit: str) -> Arrange:
    def arrange(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
        return _date_part((unit, *arguments)) if len(arguments) == 1 else None

    return arrange


def _first(enum: str) -> Arrange:
    """The arguments behind an enum argument of the official function that the producer's name implies."""
    return lambda arguments: (enum, *arguments)


def _exactly(count: int) -> Arrange:
    return lambda arguments: tuple(arguments) if len(arguments) == count else None


def _with_blank(count: int) -> Arrange:
    """The arguments with a blank behind them, where the characters to trim or pad with are left out."""
    blank = ir.Literal(value=" ", type=t.String(nullable=False))
    return lambda arguments: (*arguments, blank) if len(arguments) == count else None


def _to_whole(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of a rounding that leaves its number of decimal places out."""
    zero = ir.Literal(value=0, type=t.Integer(bits=32, nullable=False))
    return (*arguments, zero) if len(arguments) == 1 else None


def _of_half(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of a percentile that is the median."""
    half = ir.Literal(value=0.5, type=t.Float(bits=64, nullable=False))
    return (*arguments, half) if len(arguments) == 1 else None


def _of_fraction(arguments: Sequence[Argument]) -> tuple[Argument, ...] | None:
    """The arguments of an approximate percentile, without the size of the approximation: the answer is exact."""
    return tuple(arguments[:2]) if len(arguments) in (2, 3) else None


_INSENSITIVE: Final = {"case_sensitivity": ("CASE_INSENSITIVE",)}

_SCALAR: Final[dict[str, tuple[Alias, ...]]] = {
    # both write operators by their symbols at times
    "+": (Alias(name="add"),),
    "-": (Alias(name="subtract", arrange=_exactly(2)), Alias(name="negate", arrange=_exactly(1))),
    "*": (Alias(name="multiply"),),
    "/": (Alias(name="divide"),),
    "//": (Alias(name="divide"),),
    "%": (Alias(name="modulus"),),
    "||": (Alias(name="concat"),),
    "=": (Alias(name="equal"),),
    "<>": (Alias(name="not_equal"),),
    "!=": (Alias(name="not_equal"),),
    "<": (Alias(name="lt"),),
    "<=": (Alias(name="lte"),),
    ">": (Alias(name="gt"),),
    ">=": (Alias(name="gte"),),
    "~~": (Alias(name="like"),),
    "!~~": (Alias(name="like", negated=True),),
    "~~*": (Alias(name="like", options=_INSENSITIVE),),
    "!~~*": (Alias(name="like", options=_INSENSITIVE, negated=True),),
    # DataFusion
    "bitwise_shift_left": (Alias(name="shift_left"),),
    "bitwise_shift_right": (Alias(name="shift_right"),),
    "btrim": (Alias(name="trim", arrange=_exactly(2)), Alias(name="trim", arrange=_with_blank(1))),
    "ltrim": (Alias(name="ltrim", arrange=_with_blank(1)),),
    "rtrim": (Alias(name="rtrim", arrange=_with_blank(1)),),
    "trim": (Alias(name="trim", arrange=_with_blank(1)),),
    "lpad": (Alias(name="lpad", arrange=_with_blank(2)),),
    "rpad": (Alias(name="rpad", arrange=_with_blank(2)),),
    "character_length": (Alias(name="char_length"),),
    "date_part": (Alias(name="extract", arrange=_date_part),),
    "datepart": (Alias(name="extract", arrange=_date_part),),
    "extract": (Alias(name="extract", arrange=_date_part),),
    "is_unknown": (Alias(name="is_null"),),
    "is_not_unknown": (Alias(name="is_not_null"),),
    "round": (Alias(name="round", arrange=_to_whole),),
    "ilike": (
        Alias(name="like", arrange=_drop_escape, options=_INSENSITIVE),
        Alias(name="like", arrange=_exactly(2), options=_INSENSITIVE),
    ),
    "like": (Alias(name="like", arrange=_drop_escape),),
    "length": (Alias(name="char_length"),),
    "log": (Alias(name="logb", arrange=_exactly(2)), Alias(name="log10", arrange=_exactly(1))),
    "mod": (Alias(name="modulus"),),
    "modulo": (Alias(name="modulus"),),
    "negative": (Alias(name="negate"),),
    "nvl": (Alias(name="coalesce", arrange=_exactly(2)),),
    "ifnull": (Alias(name="coalesce", arrange=_exactly(2)),),
    "pow": (Alias(name="power"),),
    "signum": (Alias(name="sign"),),
    "str_concat": (Alias(name="concat"),),
    "substr": (Alias(name="substring"),),
    "array_length": (Alias(name="cardinality", arrange=_exactly(1)),),
    # DuckDB
    "ceiling": (Alias(name="ceil"),),
    "instr": (Alias(name="strpos"),),
    "len": (Alias(name="char_length"),),
    "prefix": (Alias(name="starts_with"),),
    "strlen": (Alias(name="octet_length"),),
    "suffix": (Alias(name="ends_with"),),
    "year": (Alias(name="extract", arrange=_part("YEAR")),),
    "month": (Alias(name="extract", arrange=_part("MONTH")),),
    "day": (Alias(name="extract", arrange=_part("DAY")),),
    "hour": (Alias(name="extract", arrange=_part("HOUR")),),
    "minute": (Alias(name="extract", arrange=_part("MINUTE")),),
    "second": (Alias(name="extract", arrange=_part("SECOND")),),
    "quarter": (Alias(name="extract", arrange=_part("QUARTER")),),
}

_AGGREGATE: Final[dict[str, tuple[Alias, ...]]] = {
    "approx_distinct": (Alias(name="approx_count_distinct"),),
    "approx_median": (Alias(name="percentile_cont", arrange=_of_half),),
    "approx_percentile_cont": (Alias(name="percentile_cont", arrange=_of_fraction),),
    "count_star": (Alias(name="count"),),
    "first": (Alias(name="any_value"),),
    "mean": (Alias(name="avg"),),
    "stddev": (Alias(name="std_dev", arrange=_first("SAMPLE")),),
    "stddev_samp": (Alias(name="std_dev", arrange=_first("SAMPLE")),),
    "stddev_pop": (Alias(name="std_dev", arrange=_first("POPULATION")),),
    "sum_no_overflow": (Alias(name="sum"),),
    "var": (Alias(name="variance", arrange=_first("SAMPLE")),),
    "var_samp": (Alias(name="variance", arrange=_first("SAMPLE")),),
    "var_sample": (Alias(name="variance", arrange=_first("SAMPLE")),),
    "var_pop": (Alias(name="variance", arrange=_first("POPULATION")),),
    "variance": (Alias(name="variance", arrange=_first("SAMPLE")),),
    "std_dev": (Alias(name="std_dev", arrange=_first("SAMPLE")),),
}

_TABLES: Final[dict[ir.FunctionKind, Mapping[str, tuple[Alias, ...]]]] = {
    ir.FunctionKind.SCALAR: _SCALAR,
    ir.FunctionKind.AGGREGATE: _AGGREGATE,
    ir.FunctionKind.WINDOW: _AGGREGATE,
}


def aliases(kind: ir.FunctionKind, name: str) -> tuple[Alias, ...]:
    """The official forms of a producer's name. Forms with fewer conditions come last."""
    return _TABLES[kind].get(name, ())


def known(kind: ir.FunctionKind) -> frozenset[str]:
    return frozenset(_TABLES[kind])


def undeclared_result(name: str, argument: Type | Signature | None, derived: Type) -> Type:
    """The result type of a function that the plan takes from no extension and gives no type.

    Only DataFusion writes such functions, and its average of decimals keeps four digits more than its argument has.
    """
    if name == "avg" and isinstance(argument, t.Decimal) and isinstance(derived, t.Decimal):
        precision, scale = min(38, argument.precision + 4), min(38, argument.scale + 4)
        return t.Decimal(precision=precision, scale=scale, nullable=derived.nullable)
    return derived
