"""Top-n: sort and fetch in one, if asked with the rows that tie with the last one."""

from __future__ import annotations

from ... import ir
from ..table import Table, select_list
from ..writer import Writer
from .fetch import limit


def select_topn(relation: ir.TopN, table: Table, writer: Writer) -> str:
    order = writer.order(relation.keys)
    if not relation.ties or relation.count is None:
        columns = select_list(table.columns)
        return f"SELECT {columns} FROM {table.item}{order}{limit(relation.offset, relation.count, writer)}"
    return _with_ties(relation, relation.count, table, writer)


def _with_ties(relation: ir.TopN, count: ir.Expression, table: Table, row: Writer) -> str:
    """The SELECT with ties. A row's rank counts the rows before it by the keys; its number is its position
    among ties.
    """
    width = table.width
    window = f"OVER ({row.order(relation.keys).strip()})"
    numbered = f"SELECT {', '.join((*table.columns, f'rank() {window}', f'row_number() {window}'))} FROM {table.item}"
    ranked = row.table(numbered, width + 2)
    *columns, rank, number = ranked.columns
    wanted = f"coalesce(CAST({row.expression(count)} AS BIGINT), {number})"
    skipped = "0" if relation.offset is None else f"coalesce(CAST({row.expression(relation.offset)} AS BIGINT), 0)"
    condition = f"{number} > {skipped} AND {rank} - {skipped} <= {wanted} AND {wanted} > 0"
    return f"SELECT {select_list(columns)} FROM {ranked.item} WHERE {condition} ORDER BY {number}"
