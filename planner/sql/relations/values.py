"""Values: a virtual table, its rows in order."""

from __future__ import annotations

from typing import Final

from ... import ir
from ...ir.arrow_types import sql_type
from ..literal_rows import MANY, select_literals
from ..table import select_list
from ..writer import Writer

_MANY_ROWS: Final = 50
"""The fewest rows that are worth a text for each column."""


def select_values(relation: ir.Values, writer: Writer) -> str:
    width, height = len(relation.schema), len(relation.rows)
    if not relation.rows:
        nulls = (f"CAST(NULL AS {sql_type(type_)})" for type_ in relation.schema)
        return f"SELECT {select_list(nulls)} WHERE false"
    if not width:
        return f"SELECT NULL FROM range({height})"
    many = _many_literals(relation) if height >= _MANY_ROWS and height * width >= MANY else None
    if many is not None:
        return many
    rows = (f"({', '.join(writer.column(value) for value in row)})" for row in relation.rows)
    table = f"(VALUES {', '.join(rows)}) AS r{next(writer.aliases)}"
    return f"SELECT * FROM {table}"


def _many_literals(relation: ir.Values) -> str | None:
    columns = []
    for type_, column in zip(relation.schema, zip(*relation.rows, strict=True), strict=True):
        literals = [value for value in column if isinstance(value, ir.Literal)]
        if len(literals) < len(column):
            return None
        columns.append(([literal.value for literal in literals], type_))
    return select_literals(columns)
