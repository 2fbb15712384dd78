"""Arithmetic on decimals whose steps in between have more digits than DuckDB can hold: more than 38."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

DECIMAL_ARITHMETIC: Final = "decimal_arithmetic"
"""The function in SQL: `decimal_arithmetic(operation, x, y, scale)` of texts gives the text of a decimal."""

_EXACT: Final = decimal.Context(
    prec=200, Emin=-999, Emax=999, traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
)
"""Twice as many digits as a product of two decimals has, so that a rounded quotient is rounded once."""

_OPERATIONS: Final[dict[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "cut": _EXACT.divide,
    "%": _EXACT.remainder,
}


def decimal_arithmetic(
    operations: Sequence[str],
    lefts: Sequence[str | None],
    rights: Sequence[str | None],
    scales: Sequence[str],
    check: Callable[[], None],
) -> pa.Array:
    """The result of each row with `scale` decimal places, rounded half away from zero, and of `cut` cut off towards it.
    A remainder has the sign of the dividend, and is null for a divisor of 0. `check` is called before each row, to end
    what has been interrupted. Raises `ValueError` for a quotient by 0.
    """
    rows = zip(operations, lefts, rights, scales, strict=True)
    return pa.array([_result(*row, check) for row in rows], pa.string())


def _result(operation: str, left: str | None, right: str | None, scale: str, check: Callable[[], None]) -> str | None:
    check()
    if left is None or right is None:
        return None
    x, y = Decimal(left), Decimal(right)
    if not y and operation == "%":
        return None
    if not y and operation in ("/", "cut"):
        raise ValueError("division by zero")
    rounding = decimal.ROUND_DOWN if operation == "cut" else decimal.ROUND_HALF_UP
    unit = Decimal(1).scaleb(-int(scale))
    return format(_OPERATIONS[operation](x, y).quantize(unit, rounding, _EXACT), "f")
