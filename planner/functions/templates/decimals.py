"""Exact arithmetic on decimals. DuckDB would divide decimals as floating point; the templates keep whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from ....operators.python_functions import DECIMAL_ARITHMETIC
from ...ir import types as t
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from .named_values import let, let_all
from .use import Entry, Table, Template, Use, error, nulls_first

MAX_DIGITS: Final = 38
HUGEINT: Final = 2**127 - 1
"""The greatest HUGEINT."""
_MOST_MOVED: Final = 18
"""The decimal places that a remainder, which is below 2**63, may have more and still be a HUGEINT."""
NEVER: Final = "false"
"""The condition that no operands fit."""
_WIDE: Final = 19
"""The digits from which on DuckDB gives a product of decimals more than 18. Such a product takes twice the time."""
_ROOM: Final = 12
"""The digits in front of the point that a product of 18 digits must have room for."""


def decimal(type_: Type) -> t.Decimal:
    """The type, which is a decimal by the function's signature."""
    if not isinstance(type_, t.Decimal):
        raise ValueError(f"{type_} is given, and must be a decimal")
    return type_


def fitted(sql: str, natural: t.Decimal, wanted: t.Decimal) -> str:
    """`sql`, of a decimal type that DuckDB chose, cast only if that type is wider or has another scale."""
    if natural.scale == wanted.scale and natural.precision <= wanted.precision:
        return sql
    return f"CAST({sql} AS {sql_type(wanted)})"


def unscaled(sql: str, type_: t.Decimal) -> str:
    """A decimal's digits as a HUGEINT."""
    if type_.scale == 0:
        return f"CAST({sql} AS HUGEINT)"
    if type_.precision + type_.scale <= MAX_DIGITS:
        factor = f"CAST({10**type_.scale} AS DECIMAL({max(type_.scale + 1, _WIDE)},0))"
        return f"CAST(({sql}) * {factor} AS HUGEINT)"
    return f"CAST(replace(CAST({sql} AS VARCHAR), '.', '') AS HUGEINT)"


def scaled(sql: str, scale: int, wanted: t.Decimal) -> str:
    """A decimal from the HUGEINT `sql` of its digits, `scale` of them decimal places, rounded half away from zero."""
    whole = f"CAST({sql} AS DECIMAL(38,0))"
    if scale:
        whole = f"{whole} * CAST('{'0.'.ljust(scale + 1, '0')}1' AS DECIMAL({scale},{scale}))"
    return f"CAST({whole} AS {sql_type(wanted)})"


def quotient(dividend: str, divisor: str, shift: int, wanted: t.Decimal) -> str:
    """`dividend * 10**shift / divisor` of HUGEINTs, rounded half away from zero to the wanted scale.

    `shift` gives the wanted scale. The template computes one more digit, truncated: that digit alone decides the
    rounding.
    """
    one_more = shift + 1
    if one_more > 0:
        dividend = f"{dividend} * CAST({10**one_more} AS HUGEINT)"
    elif one_more < 0:
        divisor = f"({divisor} * CAST({10**-one_more} AS HUGEINT))"
    return scaled(f"(({dividend}) // {divisor})", wanted.scale + 1, wanted)


def quotient_cut(dividend: str, divisor: str, shift: int, wanted: t.Decimal) -> str:
    """`dividend * 10**shift / divisor` of HUGEINTs, cut off towards zero. `shift`, from 0 on, gives the scale."""
    return scaled(f"(({dividend} * CAST({10**shift} AS HUGEINT)) // {divisor})", wanted.scale, wanted)


def average(use: Use, *, cut: bool) -> str:
    """The sum of decimals divided by the count, cut off towards zero or else rounded half away from it. The places that
    the result has more than the argument come from the division's remainder, so that the sum may have 38 digits.
    """
    argument, result = decimal(use.type(0)), decimal(use.result)
    total = use.call("sum", use.arguments[0])
    digits = unscaled(total, t.Decimal(precision=MAX_DIGITS, scale=argument.scale))
    count = f"nullif(CAST({use.call('count', use.arguments[0])} AS HUGEINT), 0)"
    shift = result.scale - argument.scale
    if not 0 <= shift <= _MOST_MOVED:
        return (quotient_cut if cut else quotient)(digits, count, shift, result)
    moved = f"CAST({10**shift} AS HUGEINT)"
    rest = f"({digits} % {count}) * {moved}"
    if not cut:
        rest = f"{rest} + sign({total}) * ({count} // 2)"
    return scaled(f"({digits} // {count}) * {moved} + ({rest}) // {count}", result.scale, result)


def exact(
    use: Use, operation: str, fits: Callable[[Sequence[str]], Sequence[str]], short: Callable[[Sequence[str]], str]
) -> str:
    """`short` for the operands of which all conditions of `fits` hold, so that no step has more digits than DuckDB can
    hold. Python computes the other rows.
    """
    result = decimal(use.result)

    def chosen(v: Sequence[str]) -> str:
        x, y = (f"CAST({operand} AS VARCHAR)" for operand in v)
        long = f"{DECIMAL_ARITHMETIC}('{operation}', {x}, {y}, '{result.scale}')"
        conditions = fits(v)
        computed = f"CAST({long} AS {sql_type(result)})"
        if NEVER in conditions:
            return computed
        return f"CASE WHEN {' AND '.join(conditions)} THEN {short(v)} ELSE {computed} END"

    if not fits(use.arguments):
        return short(use.arguments)
    return let_all(use.arguments, chosen)


def within(sql: str, type_: t.Decimal, most: int) -> list[str]:
    """The condition that a decimal's digits are no number above `most`, if they can be."""
    if most >= 10**type_.precision - 1:
        return []
    return [f"abs({sql}) <= CAST('{Decimal(most).scaleb(-type_.scale):f}' AS {sql_type(type_)})"]


def quotient_fits(v: Sequence[str], types: tuple[t.Decimal, t.Decimal], shift: int, scale: int) -> list[str]:
    """The conditions under which a quotient with `scale` places has 38 digits at most, and so has the dividend (or the
    divisor) that is moved by `shift` places for it.
    """
    x, y = types
    if abs(shift) > MAX_DIGITS:
        return [NEVER]
    moved = HUGEINT // 10 ** abs(shift)
    conditions = within(v[0], x, moved) if shift > 0 else within(v[1], y, moved)
    if x.precision - x.scale + y.scale + scale > MAX_DIGITS:
        conditions.append(f"abs(CAST({v[0]} AS DOUBLE) / CAST({v[1]} AS DOUBLE)) < 9e{MAX_DIGITS - 1 - scale}")
    return conditions


def _add(symbol: str) -> Template:
    def template(use: Use) -> str:
        x, y = decimal(use.type(0)), decimal(use.type(1))
        result = decimal(use.result)
        scale = max(x.scale, y.scale)
        digits = max(x.precision - x.scale, y.precision - y.scale) + scale + 1
        natural = t.Decimal(precision=min(MAX_DIGITS, digits), scale=scale)
        half = (10**MAX_DIGITS - 1) // 2

        def fits(v: Sequence[str]) -> list[str]:
            if digits <= MAX_DIGITS or scale <= result.scale:
                return []
            return [
                c for sql, of in zip(v, (x, y), strict=True) for c in within(sql, of, half // 10 ** (scale - of.scale))
            ]

        def computed(of: Use) -> str:
            return exact(of, symbol, fits, lambda v: fitted(f"({v[0]} {symbol} {v[1]})", natural, result))

        # DuckDB moves a value to the common scale, and fails if it does not fit there, also beside a null
        may_not_fit = any(of.precision - of.scale + scale > MAX_DIGITS for of in (x, y))
        return nulls_first(computed)(use) if may_not_fit else computed(use)

    return template


def _multiply(use: Use) -> str:
    x, y = decimal(use.type(0)), decimal(use.type(1))
    result = decimal(use.result)
    scale = x.scale + y.scale

    def fits(v: Sequence[str]) -> list[str]:
        if x.precision + y.precision <= MAX_DIGITS or scale <= result.scale:
            return []
        return [f"abs(CAST({v[0]} AS DOUBLE) * CAST({v[1]} AS DOUBLE)) < 9e{MAX_DIGITS - 1 - scale}"]

    return exact(use, "*", fits, lambda v: _product(v, x, y, result))


def _product(v: Sequence[str], x: t.Decimal, y: t.Decimal, result: t.Decimal) -> str:
    a, b = v
    if x.scale + y.scale > MAX_DIGITS:  # DuckDB refuses such a scale; the product of the digits need not overflow
        product = f"{unscaled(a, x)} * {unscaled(b, y)}"
        excess = x.scale + y.scale - result.scale
        return quotient(f"({product})", "CAST(1 AS HUGEINT)", -excess, result)
    if x.precision + y.precision >= _WIDE and _WIDE - 1 - x.scale - y.scale < _ROOM:
        x = t.Decimal(precision=max(x.precision, _WIDE), scale=x.scale)
        a = f"CAST({a} AS {sql_type(x)})"
    natural = t.Decimal(precision=min(MAX_DIGITS, x.precision + y.precision), scale=x.scale + y.scale)
    return fitted(f"({a} * {b})", natural, result)


def _divide(use: Use) -> str:
    x, y = decimal(use.type(0)), decimal(use.type(1))
    result = decimal(use.result)
    shift = result.scale + y.scale - x.scale
    return exact(
        use,
        "/",
        lambda v: quotient_fits(v, (x, y), shift + 1, result.scale + 1),
        lambda v: quotient(unscaled(v[0], x), unscaled(v[1], y), shift, result),
    )


def _modulus(use: Use) -> str:
    """The remainder. DuckDB computes it in floating point where the operands have no decimal type in common."""
    x, y = decimal(use.type(0)), decimal(use.type(1))
    scale = max(x.scale, y.scale)
    digits = max(x.precision - x.scale, y.precision - y.scale) + scale
    common = t.Decimal(precision=min(MAX_DIGITS, digits), scale=scale)

    def short(v: Sequence[str]) -> str:
        if digits > MAX_DIGITS:
            v = [f"CAST({operand} AS {sql_type(common)})" for operand in v]
        return fitted(f"({v[0]} % {v[1]})", common, decimal(use.result))

    def fits(v: Sequence[str]) -> list[str]:
        most = 10**MAX_DIGITS - 1
        return [c for sql, of in zip(v, (x, y), strict=True) for c in within(sql, of, most // 10 ** (scale - of.scale))]

    return exact(use, "%", fits, short)


def _bitwise(symbol: str) -> Template:
    def template(use: Use) -> str:
        x, y = (f"CAST({argument} AS HUGEINT)" for argument in use.arguments)
        return use.cast(f"xor({x}, {y})" if symbol == "xor" else f"({x} {symbol} {y})")

    return template


def _square_root(use: Use) -> str:
    checked = let(
        f"CAST({use.arguments[0]} AS DOUBLE)",
        lambda x: f"CASE WHEN {x} < 0 THEN {error('sqrt of a negative number')} ELSE sqrt({x}) END",
    )
    return use.cast(checked)


def _factorial(use: Use) -> str:
    checked = let(
        f"CAST({use.arguments[0]} AS INTEGER)",
        lambda n: f"CASE WHEN {n} < 0 THEN {error('factorial of a negative number')} ELSE factorial({n}) END",
    )
    return use.cast(checked)


def _power(use: Use) -> str:
    power = f"pow(CAST({use.arguments[0]} AS DOUBLE), CAST({use.arguments[1]} AS DOUBLE))"
    if use.choices.get("complex_number_result") != "ERROR":
        return power
    return let(power, lambda p: f"CASE WHEN isnan({p}) THEN {error('power with a complex result')} ELSE {p} END")


_OVERFLOW: Final = {"overflow": ("ERROR",)}

TABLE: Final[Table] = {
    ("arithmetic_decimal", "add"): Entry(_add("+"), _OVERFLOW),
    ("arithmetic_decimal", "subtract"): Entry(_add("-"), _OVERFLOW),
    ("arithmetic_decimal", "multiply"): Entry(_multiply, _OVERFLOW),
    ("arithmetic_decimal", "divide"): Entry(_divide, _OVERFLOW),
    ("arithmetic_decimal", "modulus"): Entry(_modulus, _OVERFLOW),
    ("arithmetic_decimal", "negate"): Entry(lambda use: f"(-{use.arguments[0]})"),
    ("arithmetic_decimal", "abs"): Entry(lambda use: f"abs({use.arguments[0]})"),
    ("arithmetic_decimal", "bitwise_and"): Entry(_bitwise("&")),
    ("arithmetic_decimal", "bitwise_or"): Entry(_bitwise("|")),
    ("arithmetic_decimal", "bitwise_xor"): Entry(_bitwise("xor")),
    ("arithmetic_decimal", "sqrt"): Entry(_square_root),
    ("arithmetic_decimal", "factorial"): Entry(_factorial),
    ("arithmetic_decimal", "power"): Entry(_power, {**_OVERFLOW, "complex_number_result": ("NAN", "ERROR")}),
}
