"""Fetch: some rows from the front, in order. Under a sort, DuckDB makes a top-n of the two."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer


def select_fetch(relation: ir.Fetch, table: Table, writer: Writer) -> str:
    return f"SELECT {select_list(table.columns)} FROM {table.item}{limit(relation.offset, relation.count, writer)}"


def limit(offset: ir.Expression | None, count: ir.Expression | None, writer: Writer) -> str:
    """A LIMIT clause, or nothing. A null count is no limit, a null offset is none; DuckDB refuses negative values."""
    clause = "" if count is None else f" LIMIT {_rows(count, writer)}"
    return clause if offset is None else f"{clause} OFFSET {_rows(offset, writer)}"


def _rows(expression: ir.Expression, writer: Writer) -> str:
    match expression:
        case ir.Literal(value=int(value)):
            return str(value)
        case _:
            return f"CAST({writer.expression(expression)} AS BIGINT)"
