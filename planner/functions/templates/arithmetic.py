"""Arithmetic on integers and floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir import types as t
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from .named_values import let, let_all
from .rounding import rounded_float
from .use import Entry, Table, Template, Use, error, nulls_first

OVERFLOW: Final = ("ERROR", "SATURATE", "SILENT")
ROUNDING: Final = ("TIE_TO_EVEN",)


def wrapped(sql: str, type_: t.Integer) -> str:
    """The low bits of a wide value, as two's complement arithmetic keeps them."""
    size = f"CAST({2**type_.bits} AS HUGEINT)"
    if not type_.signed:
        return f"CAST((({sql}) % {size} + {size}) % {size} AS {sql_type(type_)})"
    half = f"CAST({2 ** (type_.bits - 1)} AS HUGEINT)"
    return f"CAST(((({sql}) + {half}) % {size} + {size}) % {size} - {half} AS {sql_type(type_)})"


def clamped(sql: str, type_: t.Integer) -> str:
    """A wide value, or the nearest value that the type has."""
    low = -(2 ** (type_.bits - 1)) if type_.signed else 0
    high = 2 ** (type_.bits - type_.signed) - 1
    inside = let(sql, lambda v: f"CASE WHEN {v} > {high} THEN {high} WHEN {v} < {low} THEN {low} ELSE {v} END")
    return f"CAST({inside} AS {sql_type(type_)})"


def overflowing(exact: str, wide: str, type_: t.Integer, overflow: str) -> str:
    """The SQL with the chosen behaviour on overflow. `exact` fails on overflow by itself; `wide` is the same in a type
    that cannot overflow.
    """
    match overflow:
        case "SATURATE":
            return clamped(wide, type_)
        case "SILENT":
            return wrapped(wide, type_)
        case _:
            return exact


def _operator(symbol: str) -> Template:
    def template(use: Use) -> str:
        x, y = use.arguments
        type_ = use.result
        if not isinstance(type_, t.Integer):
            return f"({x} {symbol} {y})"
        wide_type = "UHUGEINT" if symbol == "*" and not type_.signed else "HUGEINT"
        wide = f"CAST({x} AS {wide_type}) {symbol} CAST({y} AS {wide_type})"
        if wide_type == "UHUGEINT" and use.choices.get("overflow") == "SILENT":
            return f"CAST(({wide}) % CAST({2**type_.bits} AS UHUGEINT) AS {sql_type(type_)})"
        return overflowing(f"({x} {symbol} {y})", wide, type_, use.choices.get("overflow", "ERROR"))

    return template


def _divide(use: Use) -> str:
    x, y = use.arguments
    if isinstance(use.result, t.Integer):
        divisor = f"nullif({y}, 0)" if use.choices["on_division_by_zero"] == "NULL" else y
        wide = f"CAST({x} AS HUGEINT) // CAST({divisor} AS HUGEINT)"
        return overflowing(f"({x} // {divisor})", wide, use.result, use.choices.get("overflow", "ERROR"))
    return let_all(use.arguments, lambda values: _divide_floats(values[0], values[1], use))


def _divide_floats(x: str, y: str, use: Use) -> str:
    domain, zero = use.choices["on_domain_error"], use.choices["on_division_by_zero"]
    guards = []
    if domain != "NAN":
        undefined = f"isnan({x}) OR isnan({y}) OR (isinf({x}) AND isinf({y}))"
        guards.append(f"WHEN {undefined} THEN {_failure(domain, 'division outside its domain')}")
    if zero != "IEEE":
        guards.append(f"WHEN {y} = 0 THEN {_failure(zero, 'division by zero')}")
    quotient = f"({x} / {y})"
    return f"CASE {' '.join(guards)} ELSE {quotient} END" if guards else quotient


def _failure(choice: str, message: str) -> str:
    return f"error('{message}')" if choice == "ERROR" else "NULL"


def _modulus(use: Use) -> str:
    x, y = use.arguments
    divisor = f"nullif({y}, 0)" if use.choices["on_domain_error"] == "NULL" else y
    if use.constant(1) in (None, -1):  # DuckDB would fail for the least integer, whose quotient by -1 is no integer
        divisor = let(divisor, lambda b: f"CASE WHEN {b} = -1 THEN CAST(1 AS {sql_type(use.type(1))}) ELSE {b} END")
    if use.choices.get("division_type") != "FLOOR":
        return f"({x} % {divisor})"

    def floored(b: str) -> str:
        return let(
            f"({x} % {b})", lambda r: f"CASE WHEN {r} <> 0 AND ({r} < 0) <> ({b} < 0) THEN {r} + {b} ELSE {r} END"
        )

    return use.cast(let(divisor, floored))


def _negate(use: Use) -> str:
    (x,) = use.arguments
    if not isinstance(use.result, t.Integer):
        return f"(-{x})"
    # DuckDB's negation of a constant gives the next wider type if needed: the cast finds that
    return overflowing(use.cast(f"-{x}"), f"-CAST({x} AS HUGEINT)", use.result, use.choices.get("overflow", "ERROR"))


def _absolute(use: Use) -> str:
    (x,) = use.arguments
    if not isinstance(use.result, t.Integer):
        return f"abs({x})"
    return overflowing(f"abs({x})", f"abs(CAST({x} AS HUGEINT))", use.result, use.choices.get("overflow", "ERROR"))


def _sign(use: Use) -> str:
    """The sign. For a float's zero and NaN it is the value itself."""
    (x,) = use.arguments
    if isinstance(use.result, t.Integer):
        return use.cast(f"sign({x})")
    signs = let(x, lambda v: f"CASE WHEN isnan({v}) OR {v} = 0 THEN {v} WHEN {v} > 0 THEN 1 WHEN {v} < 0 THEN -1 END")
    return use.cast(signs)


def _power(use: Use) -> str:
    x, y = use.arguments
    if not isinstance(use.result, t.Integer):
        return rounded_float(f"pow({x}, {y})", use.result)
    return use.cast(let_all(use.arguments, lambda values: _integer_power(values[0], values[1])))


def _integer_power(base: str, exponent: str) -> str:
    """An exact power, by repeated multiplication: floating point would be off beyond 2**53."""
    factors = f"list_transform(range({exponent}), lambda power_step: CAST({base} AS HUGEINT))"
    product = f"list_reduce({factors}, lambda power_left, power_right: power_left * power_right, CAST(1 AS HUGEINT))"
    return (
        f"CASE WHEN {base} = 1 THEN 1 WHEN {base} = -1 THEN 1 - 2 * ({exponent} & 1)"
        f" WHEN {exponent} < 0 THEN 1 // {base} WHEN {base} = 0 THEN CASE WHEN {exponent} = 0 THEN 1 ELSE 0 END"
        f" WHEN {exponent} > 63 THEN {error('overflow in power')} ELSE {product} END"
    )


def _factorial(use: Use) -> str:
    checked = let(
        use.arguments[0],
        lambda n: (
            f"CASE WHEN {n} < 0 THEN {error('factorial of a negative number')} ELSE factorial(CAST({n} AS INTEGER)) END"
        ),
    )
    return use.cast(checked)


def _bitwise(symbol: str) -> Template:
    return lambda use: f"({use.arguments[0]} {symbol} {use.arguments[1]})"


def _integer(type_: Type) -> t.Integer:
    if not isinstance(type_, t.Integer):
        raise ValueError(f"{type_} is given, and must be an integer")
    return type_


def _shift_left(use: Use) -> str:
    """A shift to the left. Bits that leave the type are lost, as in two's complement; a shift by the type's width or
    more loses all bits.
    """
    type_ = _integer(use.result)

    def shifted(values: Sequence[str]) -> str:
        x, by = values
        moved = wrapped(f"CAST({x} AS HUGEINT) * (CAST(1 AS HUGEINT) << {by})", type_)
        return f"CASE {_shift_guards(by, type_, f'{x} & 0')} ELSE {moved} END"

    return use.cast(let_all(use.arguments, shifted))


def _shift_right(use: Use) -> str:
    type_ = _integer(use.result)

    def shifted(values: Sequence[str]) -> str:
        x, by = values
        fill = f"CASE WHEN {x} < 0 THEN -1 ELSE {x} & 0 END"
        return f"CASE {_shift_guards(by, type_, fill)} ELSE {x} >> {by} END"

    return use.cast(let_all(use.arguments, shifted))


def _shift_right_unsigned(use: Use) -> str:
    type_ = _integer(use.result)

    def shifted(values: Sequence[str]) -> str:
        x, by = values
        size = f"CAST({2**type_.bits} AS HUGEINT)"
        unsigned = f"((CAST({x} AS HUGEINT) + {size}) % {size})"
        return f"CASE {_shift_guards(by, type_, f'{x} & 0')} ELSE {wrapped(f'{unsigned} >> {by}', type_)} END"

    return use.cast(let_all(use.arguments, shifted))


def _shift_guards(by: str, type_: t.Integer, emptied: str) -> str:
    return f"WHEN {by} < 0 THEN {error('shift by a negative number')} WHEN {by} >= {type_.bits} THEN {emptied}"


def shift_left_wrapped(use: Use) -> str:
    """A shift to the left by the low bits of a number, as processors do it: 9 of 8 bits are 1."""
    type_ = _integer(use.result)

    def shifted(x: str, by: str) -> str:
        size, kept = f"CAST({2**type_.bits} AS HUGEINT)", f"(CAST(1 AS HUGEINT) << ({type_.bits} - {by}))"
        low = f"((CAST({x} AS HUGEINT) + {size}) % {kept})"
        return wrapped(f"{low} * (CAST(1 AS HUGEINT) << {by})", type_)

    return let_all((use.arguments[0], _low_bits(use.arguments[1], type_)), lambda v: shifted(*v))


def shift_right_wrapped(use: Use) -> str:
    """A shift to the right by the low bits of a number, as processors do it. It keeps the sign."""
    return use.cast(f"{use.arguments[0]} >> {_low_bits(use.arguments[1], _integer(use.result))}")


def _low_bits(by: str, type_: t.Integer) -> str:
    return f"CAST({by} & CAST({type_.bits - 1} AS {sql_type(type_)}) AS {sql_type(type_)})"


def _math(function: str) -> Template:
    """A function that DuckDB computes in double precision, with NaN outside of its domain."""
    return lambda use: rounded_float(f"{function}({', '.join(use.arguments)})", use.result)


def _bounded(function: str, outside: str) -> Template:
    """A function with a domain. Where the condition `outside` on `x` holds, the result is NaN or an error."""

    def template(use: Use) -> str:
        (x,) = use.arguments
        if use.choices.get("on_domain_error", "NAN") == "NAN":
            return use.cast(f"{function}({x})")
        failure = error(f"{use.name} outside its domain")
        return use.cast(let(x, lambda v: f"CASE WHEN {outside.format(x=v)} THEN {failure} ELSE {function}({v}) END"))

    return template


_INTEGER_OR_FLOAT: Final = {"overflow": OVERFLOW, "rounding": ROUNDING}
_ROUNDED: Final = {"rounding": ROUNDING}
_DOMAIN: Final = {"rounding": ROUNDING, "on_domain_error": ("NAN", "ERROR")}
_DIVISION: Final = {
    **_INTEGER_OR_FLOAT,
    "on_domain_error": ("NAN", "NULL", "ERROR"),
    "on_division_by_zero": ("IEEE", "ERROR", "NULL"),
}

TABLE: Final[Table] = {
    ("arithmetic", "add"): Entry(_operator("+"), _INTEGER_OR_FLOAT),
    ("arithmetic", "subtract"): Entry(_operator("-"), _INTEGER_OR_FLOAT),
    ("arithmetic", "multiply"): Entry(_operator("*"), _INTEGER_OR_FLOAT),
    ("arithmetic", "divide"): Entry(_divide, _DIVISION),
    ("arithmetic", "negate"): Entry(_negate, _INTEGER_OR_FLOAT),
    ("arithmetic", "modulus"): Entry(
        _modulus,
        {"division_type": ("TRUNCATE", "FLOOR"), "overflow": OVERFLOW, "on_domain_error": ("ERROR", "NULL")},
    ),
    ("arithmetic", "power"): Entry(nulls_first(_power), {"overflow": ("ERROR",)}),
    ("arithmetic", "abs"): Entry(_absolute, _INTEGER_OR_FLOAT),
    ("arithmetic", "sign"): Entry(_sign),
    ("arithmetic", "factorial"): Entry(_factorial, {"overflow": ("ERROR",)}),
    ("arithmetic", "bitwise_not"): Entry(lambda use: f"(~{use.arguments[0]})"),
    ("arithmetic", "bitwise_and"): Entry(_bitwise("&")),
    ("arithmetic", "bitwise_or"): Entry(_bitwise("|")),
    ("arithmetic", "bitwise_xor"): Entry(lambda use: f"xor({', '.join(use.arguments)})"),
    ("arithmetic", "shift_left"): Entry(nulls_first(_shift_left)),
    ("arithmetic", "shift_right"): Entry(nulls_first(_shift_right)),
    ("arithmetic", "shift_right_unsigned"): Entry(nulls_first(_shift_right_unsigned)),
    ("arithmetic", "sqrt"): Entry(_bounded("sqrt", "{x} < 0"), _DOMAIN),
    ("arithmetic", "acos"): Entry(_bounded("acos", "abs({x}) > 1"), _DOMAIN),
    ("arithmetic", "asin"): Entry(_bounded("asin", "abs({x}) > 1"), _DOMAIN),
    ("arithmetic", "acosh"): Entry(_bounded("acosh", "{x} < 1"), _DOMAIN),
    ("arithmetic", "atanh"): Entry(_bounded("atanh", "abs({x}) > 1"), _DOMAIN),
    ("arithmetic", "atan2"): Entry(_math("atan2"), {"rounding": ROUNDING, "on_domain_error": ("NAN",)}),
    **{
        ("arithmetic", function): Entry(_math(function), _ROUNDED)
        for function in ("exp", "cos", "sin", "tan", "cosh", "sinh", "tanh", "atan", "asinh", "radians", "degrees")
    },
    ("unsigned_integers", "add"): Entry(_operator("+"), _INTEGER_OR_FLOAT),
    ("unsigned_integers", "subtract"): Entry(_operator("-"), _INTEGER_OR_FLOAT),
    ("unsigned_integers", "multiply"): Entry(_operator("*"), _INTEGER_OR_FLOAT),
    ("unsigned_integers", "divide"): Entry(_divide, _DIVISION),
}
