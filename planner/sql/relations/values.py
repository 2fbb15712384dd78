"""Values: a virtual table, its rows in order."""

from __future__ import annotations

from ... import ir
from ...ir.arrow_types import sql_type
from ..table import select_list
from ..writer import Writer


def select_values(relation: ir.Values, writer: Writer) -> str:
    width, height = len(relation.schema), len(relation.rows)
    if not relation.rows:
        nulls = (f"CAST(NULL AS {sql_type(type_)})" for type_ in relation.schema)
        return f"SELECT {select_list(nulls)} WHERE false"
    if not width:
        return f"SELECT NULL FROM range({height})"
    rows = (f"({', '.join(writer.column(value) for value in row)})" for row in relation.rows)
    table = f"(VALUES {', '.join(rows)}) AS r{next(writer.aliases)}"
    return f"SELECT * FROM {table}"
