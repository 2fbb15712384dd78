"""Recursion: a loop as one recursive statement.

With `base`, `steps` and the entering rows, the statement is `entering rows UNION ALL (base and steps(entering rows)
UNION steps(new rows))`. A relation that a step reads beside its reference is computed once, in a MATERIALIZED common
table expression: DuckDB would compute it in every round. Rows are counted as the rounds find them. If the loop's rows
are the statement's whole result, the statement's runner counts them and puts them in canonical order: the statement
gives one row more than the limit, and stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....operators.core.quoting import text
from ....operators.duckdb.loop_resources import mark
from ... import ir
from ...ir import types as t
from ...ir.arrow_types import sql_type
from ..table import select_list


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursionNames:
    """The names of a recursion's common table expressions. `number` is the number of an alias, unique in the
    statement.
    """

    number: int

    @property
    def loop(self) -> str:
        return f"loop{self.number}"

    @property
    def entering(self) -> str:
        return f"loop{self.number}in"

    def fixed(self, at: int) -> str:
        return f"loop{self.number}part{at}"


def select_recursion(
    relation: ir.Recursion,
    names: RecursionNames,
    *,
    entering: str | None,
    fixed: Sequence[str],
    start: Sequence[str],
    rounds: Sequence[str],
    is_all: bool,
) -> str:
    """The SELECT of a recursion. `entering` and `fixed` are the SELECTs that run once, `start` those of the first
    round, `rounds` those of the other rounds. `is_all`: the loop's rows are the statement's whole result.
    """
    width = len(relation.schema)
    definitions = list(fixed)
    if entering is not None:
        definitions.insert(0, materialized(names.entering, width, _canonical(entering, relation.schema)))
    first = _canonical(_union_all(start) if start else _nothing(relation.schema), relation.schema)
    following = _canonical(_union_all(rounds), relation.schema) if rounds else ""
    loop = f"({first}) UNION ({following})" if rounds else f"SELECT DISTINCT * FROM ({first})"
    definitions.append(f"{names.loop}({_names(width)}) AS ({loop})")
    branches = [rows_of(table, width) for table in ((names.entering,) if entering is not None else ()) + (names.loop,)]
    if is_all:
        rows = f"{_union_all(branches)} LIMIT {relation.max_rows + 1:d}"
        return f"SELECT * FROM (WITH RECURSIVE {', '.join(definitions)} {rows})"
    counted = f"SELECT {_names(width)}, row_number() OVER () FROM ({_union_all(branches)})"
    check = f"CASE WHEN n > {relation.max_rows:d} THEN error({text(mark(relation.loop))}) ELSE true END"
    rows = f"SELECT {_names(width)} FROM ({counted}) AS counted({_names(width)}, n) WHERE {check}"
    order = ", ".join(f"c{at} ASC NULLS LAST" for at in range(width))
    return f"SELECT {_names(width)} FROM (WITH RECURSIVE {', '.join(definitions)} {rows}) ORDER BY {order}"


def materialized(name: str, width: int, select: str) -> str:
    return f"{name}({_names(max(width, 1))}) AS MATERIALIZED ({select})"


def rows_of(name: str, width: int) -> str:
    return f"SELECT {select_list(f'{name}.c{at}' for at in range(width))} FROM {name}"


def _names(width: int) -> str:
    return ", ".join(f"c{at}" for at in range(width))


def _union_all(selects: Sequence[str]) -> str:
    return " UNION ALL ".join(f"({select})" for select in selects) if len(selects) > 1 else selects[0]


def _nothing(schema: ir.Schema) -> str:
    return f"SELECT {', '.join(f'CAST(NULL AS {sql_type(type_)})' for type_ in schema)} WHERE false"


def _canonical(select: str, schema: ir.Schema) -> str:
    """The rows with one bit pattern for each number: which of several patterns stays would depend on the rows'
    order.
    """
    if not any(isinstance(type_, t.Float) for type_ in schema):
        return select
    columns = (_number(f"c{at}", type_) for at, type_ in enumerate(schema))
    return f"SELECT {', '.join(columns)} FROM ({select}) AS plain({_names(len(schema))})"


def _number(column: str, type_: t.Type) -> str:
    if not isinstance(type_, t.Float):
        return column
    name = sql_type(type_)
    numbers = f"WHEN isnan({column}) THEN CAST('nan' AS {name}) WHEN {column} = 0 THEN CAST(0 AS {name})"
    return f"CASE {numbers} ELSE {column} END"
