"""Window: the input's columns, then one per call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ... import ir
from ..table import Table, select_list
from ..writer import Writer

_FAILURE: Final = "error("
"""The SQL with which an expression fails the statement."""


def select_window(relation: ir.Window, table: Table, writer: Writer) -> str:
    """DuckDB takes no expression that may fail the statement for a window's key: it becomes a column of the input
    first.
    """
    keys = [key for call in relation.calls for key in (*call.partitions, *(sort.expression for sort in call.sorts))]
    failing = [*dict.fromkeys(key for key in keys if _FAILURE in writer.expression(key))]
    if not failing:
        return _select(relation.calls, table.columns, table, writer)
    wider = writer.table(
        f"SELECT {select_list((*table.columns, *map(writer.column, failing)))} FROM {table.item}",
        table.width + len(failing),
    )
    columns = {key: ir.Field(index=at, type=key.type) for at, key in enumerate(failing, table.width)}
    calls = [_by_columns(call, columns) for call in relation.calls]
    return _select(calls, wider.columns[: table.width], wider, writer.over(wider))


def _select(calls: Sequence[ir.WindowCall], columns: Sequence[str], table: Table, writer: Writer) -> str:
    return f"SELECT {select_list((*columns, *map(writer.call, calls)))} FROM {table.item}"


def _by_columns(call: ir.WindowCall, columns: Mapping[ir.Expression, ir.Field]) -> ir.WindowCall:
    """The call with columns in place of some of its keys."""
    sorts = (replace(sort, expression=columns.get(sort.expression, sort.expression)) for sort in call.sorts)
    partitions = (columns.get(partition, partition) for partition in call.partitions)
    return replace(call, sorts=tuple(sorts), partitions=tuple(partitions))
