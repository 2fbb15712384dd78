"""Window: the input's columns, then one per call."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer


def select_window(relation: ir.Window, table: Table, writer: Writer) -> str:
    row = writer.over(table)
    return f"SELECT {select_list((*table.columns, *map(row.call, relation.calls)))} FROM {table.item}"


def gathered(relation: ir.Window, select: str) -> str:
    """The SELECT of the window's input, gathered first if the window has partitions.

    Where four or more pipelines feed such a window (files of several schemas, parts of files, a union), each reserves
    memory. A join above it gets too little then, and the order of its rows is another one in every run.
    """
    if not any(call.partitions for call in relation.calls):
        return select
    return f"WITH gathered AS MATERIALIZED ({select}) SELECT * FROM gathered"
