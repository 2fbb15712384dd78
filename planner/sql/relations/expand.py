"""Expand: every input row once per alternative, then the alternative's number, in order of rows, then alternatives."""

from __future__ import annotations

from collections.abc import Sequence

from ... import ir
from ...ir.arrow_types import sql_type
from ..table import Table, select_list
from ..writer import Writer


def select_expand(relation: ir.Expand, table: Table, writer: Writer) -> str:
    """The SELECT, by UNNEST: a join with the numbers would order rows by the parts into which the input is cut."""
    width = table.width
    numbers = list(range(len(relation.alternatives)))
    copies = f"SELECT {', '.join((*table.columns, f'unnest({numbers}::INTEGER[])'))} FROM {table.item}"
    copied = writer.table(copies, width + 1)
    row = writer.over(copied)
    number = copied.columns[width]
    fields = (_field(choices, number, row) for choices in zip(*relation.alternatives, strict=True))
    return f"SELECT {select_list((*fields, number))} FROM {copied.item}"


def _field(choices: Sequence[ir.Expression], number: str, row: Writer) -> str:
    if all(choice is choices[0] for choice in choices):
        return row.column(choices[0])
    branches = " ".join(f"WHEN {at} THEN {row.column(choice)}" for at, choice in enumerate(choices))
    return f"CAST(CASE {number} {branches} END AS {sql_type(choices[0].type)})"
