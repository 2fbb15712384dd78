"""Many constants as the rows of a SELECT, written as one text for each column.

DuckDB keeps an expression of about ten kilobytes for each literal of a statement, and walks all of them in every step
of its planning: 100,000 literals take 10 s. Cutting one text and converting its parts takes a fortieth of that.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...operators.core import quoting
from .. import ir
from ..ir import types as t
from ..ir.arrow_types import sql_type
from ..ir.types import Type

MANY: Final = 1_000
"""The fewest constants that are worth it."""

_SEPARATORS: Final = ("\x1f", "\x1e", "\x1d", "\x1c", "|", "\n")
_NEEDED: Final = 2
"""One of them stands between two texts, and one in the place of a null."""


def select_literals(columns: Sequence[tuple[Sequence[Any], Type]]) -> str | None:
    """A SELECT of the rows that the columns have, nulls included, in their order; None for types and values that are
    written one by one.
    """
    written = [_written(values, type_, f"v{at}") for at, (values, type_) in enumerate(columns)]
    known = [column for column in written if column is not None]
    if len(known) < len(written):
        return None
    parts, selected = (", ".join(column[at] for column in known) for at in range(2))
    return f"SELECT {selected} FROM (SELECT {parts})"


def _written(values: Sequence[Any], type_: Type, name: str) -> tuple[str, str] | None:
    """The texts of a column, each a row, and the SQL that makes values of them."""
    known = _conversion(type_)
    if known is None:
        return None
    written, convert = known
    texts = [None if value is None else written(value) for value in values]
    together = "".join(filter(None, texts))
    free = [separator for separator in _SEPARATORS if separator not in together]
    if len(free) < _NEEDED:
        return None
    separator, null, *_ = free
    whole = separator.join(null if text is None else text for text in texts)
    parts = f"unnest(string_split({quoting.text(whole)}, {quoting.text(separator)})) AS {name}"
    return parts, convert(f"nullif({name}, {quoting.text(null)})" if None in texts else name)


def _conversion(type_: Type) -> tuple[Callable[[Any], str], Callable[[str], str]] | None:
    """The text of a value, and the SQL that makes a value of a text. `literal` writes the same values."""

    def cast(text: str) -> str:
        return f"CAST({text} AS {sql_type(type_)})"

    match type_:
        case t.Boolean():
            return lambda value: "true" if value else "false", cast
        case t.Integer():
            return lambda value: str(int(value)), cast
        case t.Float():
            return repr, cast
        case t.Decimal():
            return lambda value: f"{decimal.Decimal(value):f}", cast
        case t.String() | t.VarChar() | t.FixedChar():
            return str, str
        case t.Binary() | t.FixedBinary():
            return lambda value: str(value.hex()), "from_hex({})".format
        case t.Date():
            return lambda value: str(int(value)), "make_date(CAST({} AS INTEGER))".format
        case t.Uuid():
            return lambda value: str(uuid.UUID(bytes=value)), cast
        case _:
            return None


def many_literals(one_of: ir.OneOf) -> str | None:
    """A SELECT of the options, if they are many literals of one type."""
    if len(one_of.options) < MANY or len(one_of.value) != 1:
        return None
    literals = [option for (option,) in one_of.options if isinstance(option, ir.Literal)]
    if len(literals) < len(one_of.options):
        return None
    first = literals[0].type
    type_ = t.nullable(first)
    # literals of one list share their type: to compare each of them by value would take longer than all else here
    if any(one.type is not first and t.nullable(one.type) != type_ for one in literals):
        return None
    return select_literals([([element.value for element in literals], type_)])
