"""Top-n: sort and fetch in one, if asked with the rows that tie with the last one."""

from __future__ import annotations

from ... import ir
from ...functions.templates.use import error
from ..table import Table, select_list
from ..writer import Writer
from .fetch import limit, skipped_rows, wanted_rows


def select_topn(relation: ir.TopN, table: Table, writer: Writer) -> str:
    order = writer.order(relation.keys)
    if not relation.ties or relation.count is None:
        columns = select_list(table.columns)
        return f"SELECT {columns} FROM {table.item}{order}{limit(relation.offset, relation.count, writer)}"
    return _with_ties(relation, relation.count, table, writer)


def _with_ties(relation: ir.TopN, count: ir.Expression, table: Table, row: Writer) -> str:
    """The SELECT with ties. A row's rank counts the rows before it by the keys; its number is its position
    among ties. The numbers of the limit are columns beside them, because each is needed more than once.
    """
    window = f"OVER ({row.order(relation.keys).strip()})"
    limits = (wanted_rows(count, row), "0" if relation.offset is None else skipped_rows(relation.offset, row))
    named = ", ".join((*table.columns, f"rank() {window}", f"row_number() {window}", *limits))
    ranked = row.table(f"SELECT {named} FROM {table.item}", table.width + 4)
    *columns, rank, number, wanted, skipped = ranked.columns
    condition = f"{number} > {skipped} AND {rank} - {skipped} <= {wanted} AND {wanted} > 0"
    if not all(limit.isdigit() for limit in limits):
        negative = error("LIMIT/OFFSET cannot be negative")
        condition = f"CASE WHEN {wanted} < 0 OR {skipped} < 0 THEN {negative} ELSE {condition} END"
    return f"SELECT {select_list(columns)} FROM {ranked.item} WHERE {condition} ORDER BY {number}"
