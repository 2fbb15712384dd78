"""`quantile`: the values at the boundaries of equal bins, between two values exactly, with one rounding."""

from __future__ import annotations

from ...ir import types as t
from ...ir.arrow_types import sql_type
from .decimals import scaled, unscaled
from .named_values import let
from .use import Use

_MOST_BINS = 100_000
"""The bins whose boundaries are written out."""


def quantile(use: Use) -> str:
    """The boundaries. The values are sorted unless the plan has an order for them; a null among them makes all null."""
    including = use.arguments[0]
    bins = use.constant(2)
    if not isinstance(bins, int) or not 1 <= bins <= _MOST_BINS:
        use.refuse(f"the number of bins must be a constant from 1 to {_MOST_BINS:,}")
    first = 0 if including in ("MINIMUM", "BOTH") else 1
    last = bins if including in ("MAXIMUM", "BOTH") else bins - 1
    listed = use.call("list", use.arguments[3])
    items = listed if use.ordered else f"list_sort({listed})"
    boundaries = f"CAST(range({first}, {last + 1}) AS BIGINT[])"

    def of(items: str) -> str:
        value = _between(use.type(3), items, f"(boundary * (len({items}) - 1))", bins)
        values = f"list_transform({boundaries}, lambda boundary: {value})"
        return f"CASE WHEN len({items}) = list_count({items}) THEN {values} END"

    return use.cast(let(items, of))


def _between(type_: t.Type, items: str, bin_position: str, bins: int) -> str:
    """The value at a position, of which `bins` stand between two values: rounded to the nearest, ties to even. A value
    without digits is that of the nearest position.
    """
    whole, rest = f"({bin_position} // {bins})", f"({bin_position} % {bins})"
    low, high = f"{items}[{whole} + 1]", f"{items}[{whole} + if({rest} = 0, 1, 2)]"
    match type_:
        case t.Float():
            share = f"({rest} / {bins})"
            return f"if({low} = {high}, {low}, {low} * (1 - {share}) + {high} * {share})"
        case t.Integer():
            digits = _rounded(f"CAST({low} AS HUGEINT)", f"CAST({high} AS HUGEINT)", rest, bins)
            return f"CAST({digits} AS {sql_type(type_)})"
        case t.Decimal():
            return scaled(_rounded(unscaled(low, type_), unscaled(high, type_), rest, bins), type_.scale, type_)
        case _:
            return f"{items}[{_to_even(whole, rest, bins)} + 1]"


def _rounded(low: str, high: str, rest: str, bins: int) -> str:
    """`(low * (bins - rest) + high * rest) / bins` of HUGEINTs, without a product that overflows."""
    shares = [(low, f"({bins} - {rest})"), (high, rest)]
    whole = " + ".join(f"({value} // {bins}) * {share}" for value, share in shares)
    parts = " + ".join(f"({value} % {bins}) * {share}" for value, share in shares)
    return let(f"({parts})", lambda parts: _to_even(f"({whole} + {parts} // {bins})", f"({parts} % {bins})", bins))


def _to_even(whole: str, rest: str, bins: int) -> str:
    """`whole + rest / bins` rounded to the nearest integer, ties to even. The rest has the sign of what it rests of."""
    further = f"2 * abs({rest}) > {bins} OR (2 * abs({rest}) = {bins} AND {whole} % 2 <> 0)"
    return f"({whole} + CASE WHEN {further} THEN sign({rest}) ELSE 0 END)"
