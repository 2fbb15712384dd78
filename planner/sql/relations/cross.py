"""Cross: every pair of rows."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list


def select_cross(_: ir.Cross, left: Table, right: Table) -> str:
    return f"SELECT {select_list((*left.columns, *right.columns))} FROM {left.item} CROSS JOIN {right.item}"
