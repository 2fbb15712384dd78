"""Fetch: some rows from the front, in order. Under a sort, DuckDB makes a top-n of the two."""

from __future__ import annotations

from typing import Final

from ... import ir
from ..table import Table, select_list
from ..writer import Writer

_COUNTED: Final = 1 << 62
"""The most rows that DuckDB counts in a limit. No input has as many."""


def select_fetch(relation: ir.Fetch, table: Table, writer: Writer) -> str:
    return f"SELECT {select_list(table.columns)} FROM {table.item}{limit(relation.offset, relation.count, writer)}"


def limit(offset: ir.Expression | None, count: ir.Expression | None, writer: Writer) -> str:
    """A LIMIT clause, or nothing. A null count is no limit, a null offset is none; DuckDB refuses negative values."""
    clause = "" if count is None else f" LIMIT {wanted_rows(count, writer)}"
    return clause if offset is None else f"{clause} OFFSET {skipped_rows(offset, writer)}"


def wanted_rows(count: ir.Expression, writer: Writer) -> str:
    """The SQL of a count. A null is no limit."""
    return _rows(count, _COUNTED, writer)


def skipped_rows(offset: ir.Expression, writer: Writer) -> str:
    """The SQL of an offset. A null is 0."""
    return _rows(offset, 0, writer)


def _rows(number: ir.Expression, null: int, writer: Writer) -> str:
    match number:
        case ir.Literal(value=int(value)):
            return str(min(value, _COUNTED))
        case _:
            return f"CAST(least(coalesce({writer.expression(number)}, {null}), {_COUNTED}) AS BIGINT)"
