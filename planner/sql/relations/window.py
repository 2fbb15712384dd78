"""Window: the input's columns, then one per call."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer


def select_window(relation: ir.Window, table: Table, writer: Writer) -> str:
    return f"SELECT {select_list((*table.columns, *map(writer.call, relation.calls)))} FROM {table.item}"
