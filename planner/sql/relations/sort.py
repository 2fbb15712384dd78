"""Sort: all rows, ordered. Relations that keep their input's order (filter, project, fetch) keep this order."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer


def select_sort(relation: ir.Sort, table: Table, writer: Writer) -> str:
    return f"SELECT {select_list(table.columns)} FROM {table.item}{writer.order(relation.keys)}"
