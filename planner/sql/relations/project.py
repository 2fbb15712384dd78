"""Project: each input row's expressions, in order."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer


def select_project(relation: ir.Project, table: Table, writer: Writer) -> str:
    row = writer.over(table)
    return f"SELECT {select_list(map(row.column, relation.expressions))} FROM {table.item}"
