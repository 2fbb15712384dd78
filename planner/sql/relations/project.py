"""Project: each input row's expressions, in order. One guard bounds the bytes of all of them."""

from __future__ import annotations

from ... import ir
from ...ir.visit import has_subquery
from ..table import Table, select_list
from ..writer import Writer


def select_project(relation: ir.Project, table: Table, writer: Writer) -> str:
    together = not any(map(has_subquery, relation.expressions))
    test = writer.guard(relation.expressions) if together else None
    if test is None:
        column = writer.unguarded_column if together else writer.column
        return f"SELECT {select_list(map(column, relation.expressions))} FROM {table.item}"
    tested = writer.table(f"SELECT {select_list((*table.columns, test))} FROM {table.item}", table.width + 1)
    row, stopped = writer.over(tested), tested.columns[-1]
    columns = (row.unguarded_column(expression, stopped) for expression in relation.expressions)
    return f"SELECT {select_list(columns)} FROM {tested.item}"
