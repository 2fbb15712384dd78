"""Many constants of one type as the rows of a SELECT, written as one text.

DuckDB keeps an expression of about ten kilobytes for each literal of a statement, and walks all of them in every step
of its planning: 100,000 literals take 10 s. Cutting one text and converting its parts takes a fortieth of that.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...operators.core import quoting
from ..ir import types as t
from ..ir.arrow_types import sql_type
from ..ir.types import Type

MANY: Final = 1_000
"""The fewest constants that are worth it."""

_SEPARATORS: Final = ("\x1f", "\x1e", "\x1d", "\x1c", "|", "\n")


def select_literals(values: Sequence[Any], type_: Type) -> str | None:
    """A SELECT of a row for each value, nulls included; None for types and values that are written one by one."""
    known = _conversion(type_)
    present = [value for value in values if value is not None]
    if known is None or not present:
        return None
    written, convert = known
    texts = [written(value) for value in present]
    separator = next((candidate for candidate in _SEPARATORS if not any(candidate in text for text in texts)), None)
    if separator is None:
        return None
    parts = f"string_split({quoting.text(separator.join(texts))}, {quoting.text(separator)})"
    rows = f"SELECT {convert} FROM (SELECT unnest({parts}) AS c)"
    return rows if len(present) == len(values) else f"{rows} UNION ALL SELECT CAST(NULL AS {sql_type(type_)})"


def _conversion(type_: Type) -> tuple[Callable[[Any], str], str] | None:
    """The text of a value, and the SQL that makes a value of the text `c`. `literal` writes the same values."""
    cast = f"CAST(c AS {sql_type(type_)})"
    match type_:
        case t.Integer():
            return lambda value: str(int(value)), cast
        case t.Float():
            return repr, cast
        case t.Decimal():
            return lambda value: f"{decimal.Decimal(value):f}", cast
        case t.String() | t.VarChar() | t.FixedChar():
            return str, "c"
        case t.Binary() | t.FixedBinary():
            return lambda value: str(value.hex()), "from_hex(c)"
        case t.Date():
            return lambda value: str(int(value)), "make_date(CAST(c AS INTEGER))"
        case t.Uuid():
            return lambda value: str(uuid.UUID(bytes=value)), cast
        case _:
            return None
