"""Join: all types. A condition that is null for a pair does not match the pair.

A single join fails the statement if a row matches more than once: it is a scalar subquery, whose one row is a struct of
the other side. A mark is true if any pair matches, else null if the condition is null for any pair, else false.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, assert_never

from ... import ir
from ...ir.boolean import conjuncts, with_conjuncts, within_is_true
from ..table import Table, select_list
from ..writer import Writer

_KEYWORDS: Final = {
    ir.JoinType.INNER: "JOIN",
    ir.JoinType.OUTER: "FULL JOIN",
    ir.JoinType.LEFT: "LEFT JOIN",
    ir.JoinType.RIGHT: "RIGHT JOIN",
    ir.JoinType.LEFT_SEMI: "SEMI JOIN",
    ir.JoinType.RIGHT_SEMI: "SEMI JOIN",
    ir.JoinType.LEFT_ANTI: "ANTI JOIN",
    ir.JoinType.RIGHT_ANTI: "ANTI JOIN",
}


def select_join(relation: ir.Join, left: Table, right: Table, writer: Writer) -> str:
    on = writer.condition(relation.condition)
    match relation.type:
        case ir.JoinType.INNER | ir.JoinType.OUTER | ir.JoinType.LEFT | ir.JoinType.RIGHT:
            columns = select_list((*left.columns, *right.columns))
            return f"SELECT {columns} FROM {left.item} {_KEYWORDS[relation.type]} {right.item} ON {on}"
        case ir.JoinType.LEFT_SEMI | ir.JoinType.LEFT_ANTI:
            return _filtering(_KEYWORDS[relation.type], left, right, on)
        case ir.JoinType.RIGHT_SEMI | ir.JoinType.RIGHT_ANTI:
            return _filtering(_KEYWORDS[relation.type], right, left, on)
        case ir.JoinType.LEFT_SINGLE:
            return single(left, right, on, writer, other_first=False)
        case ir.JoinType.RIGHT_SINGLE:
            return single(right, left, on, writer, other_first=True)
        case ir.JoinType.LEFT_MARK:
            return mark(relation.condition, left, right, writer)
        case ir.JoinType.RIGHT_MARK:
            return mark(relation.condition, right, left, writer)
        case _:
            assert_never(relation.type)


def _filtering(keyword: str, kept: Table, other: Table, on: str) -> str:
    return f"SELECT {select_list(kept.columns)} FROM {kept.item} {keyword} {other.item} ON {on}"


def single(kept: Table, other: Table, on: str, writer: Writer, *, other_first: bool) -> str:
    """All rows of one side, each with its one match of the other side, or with nulls.

    A subquery that does not read the row would run, and fail for two matches, where there is no row: so it reads one.
    """
    fields = [f"f{at} := {column}" for at, column in enumerate(other.columns)] or ["f0 := NULL"]
    match_ = f"SELECT struct_pack({', '.join(fields)}) FROM {other.item} WHERE {on}"
    rows = kept if kept.columns else kept.with_a_column
    if not _mentions(f"{other.item} {on}", kept.columns):
        match_ = f"SELECT * FROM ({match_} LIMIT 2) WHERE {rows.columns[0]} IS NULL OR true"
    matched = writer.table(f"SELECT {select_list((*kept.columns, f'({match_})'))} FROM {rows.item}", kept.width + 1)
    *own, struct = matched.columns
    others = [f"struct_extract({struct}, 'f{at}')" for at in range(other.width)]
    columns = (*others, *own) if other_first else (*own, *others)
    return f"SELECT {select_list(columns)} FROM {matched.item}"


def _mentions(sql: str, columns: Sequence[str]) -> bool:
    return any(re.search(rf"(?<![\w.]){re.escape(column)}(?!\w)", sql) for column in columns)


def mark(condition: ir.Expression | None, kept: Table, other: Table, row: Writer) -> str:
    """The rows of one side, each with a mark for a match on the other side. `row` sees both sides as the condition
    does.
    """
    return f"SELECT {select_list((*kept.columns, _mark(condition, kept, other, row)))} FROM {kept.item}"


def _mark(condition: ir.Expression | None, kept: Table, other: Table, row: Writer) -> str:
    """The mark's SQL. DuckDB matches EXISTS and IN by hash; the general form, which compares every pair, is the last
    resort.
    """
    if condition is None or not condition.type.nullable:
        return f"EXISTS (SELECT 1 FROM {other.item} WHERE {row.condition(_for_where(condition))})"
    on = row.condition(condition)
    sides = _equality(condition, row.scope.rows[0], kept)
    if sides is not None:
        needle, value = sides
        return f"{row.expression(needle)} IN (SELECT {row.expression(value)} FROM {other.item})"
    return f"true IN (SELECT {on} FROM {other.item})"


def _for_where(condition: ir.Expression | None) -> ir.Expression | None:
    """The condition without `is_true` around its terms. WHERE takes null for false, and DuckDB sees equalities only
    where nothing is around them.
    """
    if condition is None:
        return None
    return with_conjuncts(condition, [within_is_true(term) for term in conjuncts(condition)])


def _equality(condition: ir.Expression, row: tuple[str, ...], kept: Table) -> tuple[ir.Field, ir.Field] | None:
    """The kept side's column and the other side's column, if the condition is that they are equal."""
    match condition:
        case ir.Call(arguments=(ir.Field(steps=(), outer=0) as one, ir.Field(steps=(), outer=0) as two)):
            if condition.function.name != "equal" or not condition.function.urn.endswith("functions_comparison"):
                return None
            mine = [row[field.index] in kept.columns for field in (one, two)]
            if mine == [True, False]:
                return one, two
            return (two, one) if mine == [False, True] else None
        case _:
            return None
