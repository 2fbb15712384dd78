"""Random queries through producers that run in an environment of their own: their plans give their own answers."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tidegate

from ..searching import tries
from .live_producers import TABLES, Written, needed, written
from .outcomes import Outcome, answer, held_against

pytestmark = needed

AT_ONCE: Final = 100
"""The queries of an example. The producer takes a second to start, and a millisecond for a query."""
MOST_UNWRITTEN: Final = 0.5
"""The part of a producer's queries that it may not write, or not read back as it wrote them."""

UNTYPED: Final = "MISSING: a null without a type stands here, and its place tells no type"
"""The refusal of a null without a type."""
TABLE_ROWS: Final = (
    *(
        "t",
        "t JOIN u ON t.k = u.k",
        "t LEFT JOIN u ON t.k = u.k",
    ),
    *("(SELECT * FROM t WHERE a > 0) AS t", "(SELECT * FROM t ORDER BY k LIMIT 4) AS t"),
)
MEASURES: Final = (
    *(
        "count(*)",
        "count(t.s)",
        "CAST(sum(t.a) AS BIGINT)",
        "min(t.f)",
        "max(t.s)",
        "avg(t.a)",
        "count(DISTINCT t.a)",
        "sum(t.f)",
    ),
    *("min(t.d)", "CAST(sum(CASE WHEN t.b THEN t.k END) AS BIGINT)", "max(t.a + t.k)"),
)
IBIS_MEASURES: Final = (
    *("T.s.count()", "T.a.sum()", "T.f.min()", "T.d.max()", "T.a.mean()", "T.a.nunique()", "T.f.sum()"),
    *("T.d.min()", "T.k.sum(where=T.b)", "(T.a + T.k).max()", "T.f.std()"),
)
IBIS_CONDITIONS: Final = (
    *(
        "T.b",
        "T.s.isnull()",
        "T.a.notnull()",
        "T.s.like('%a%')",
        "T.s.startswith('a')",
        "(T.d.year() < 2024)",
    ),
    *("T.a.isin([1, 2, 5])", "T.k.notin([1, 4])", "T.a.between(0, 2)", "T.s.isin(['apple', ''])"),
)
SIMPLE_CONDITIONS: Final = (
    *("t.b", "t.s IS NULL", "t.a IS NOT NULL", "t.s LIKE '%a%'", "t.s NOT LIKE 'a%'", "t.d < DATE '2024-03-01'"),
    *("t.a IN (1, 2, 5)", "t.a BETWEEN 0 AND 2", "t.s IN ('apple', '')"),
)


class Sql:
    """Random queries of DuckDB's SQL over `t` and `u`. Operands are columns or small, so that nothing overflows."""

    def __init__(self, random: Random) -> None:
        self._one = random.choice

    def query(self) -> str:
        return self._one((self._rows, self._distinct, self._groups, self._total, self._first, self._set, self._in))()

    def _rows(self) -> str:
        where = f"FROM {self._one(TABLE_ROWS)} WHERE {self.condition(2)}"
        return f"SELECT {self.integer(2)} AS x, {self.other()} AS y {where}"

    def _distinct(self) -> str:
        return f"SELECT DISTINCT {self.integer(1)} AS x FROM {self._one(TABLE_ROWS)}"

    def _groups(self) -> str:
        key, most = self._one(("t.a", "t.b", "t.s", "t.a, t.b")), self._one(("", " HAVING count(*) > 1"))
        where = f"FROM {self._one(TABLE_ROWS)} WHERE {self.condition(1)}"
        return f"SELECT {key}, {self._one(MEASURES)} AS m, {self._one(MEASURES)} AS n {where} GROUP BY {key}{most}"

    def _total(self) -> str:
        where = f"FROM {self._one(TABLE_ROWS)} WHERE {self.condition(2)}"
        return f"SELECT {self._one(MEASURES)} AS m, {self._one(MEASURES)} AS n {where}"

    def _first(self) -> str:
        order = self._one(("", " DESC"))
        return f"SELECT t.k AS k, {self.integer(2)} AS x FROM t WHERE {self.condition(1)} ORDER BY t.k{order} LIMIT 3"

    def _set(self) -> str:
        operation = self._one(("INTERSECT", "EXCEPT"))
        return f"SELECT t.k AS k FROM t WHERE {self.condition(2)} {operation} SELECT k FROM u"

    def _in(self) -> str:
        rows = self._one(("IN (SELECT k FROM u)", "NOT IN (SELECT k FROM u)", "> (SELECT min(k) FROM u)"))
        return f"SELECT t.k AS k FROM t WHERE {self.condition(1)} AND t.k {rows}"

    def integer(self, depth: int) -> str:
        if not depth:
            return self._one(("t.k", "t.a", "3", "-2", "CAST(t.f AS BIGINT)", "length(t.s)", "year(t.d)"))
        x, y = self.integer(depth - 1), self.integer(0)
        sign = self._one(("+", "-", "*"))
        case = f"CASE WHEN {self.condition(depth - 1)} THEN {x}"
        return self._one(
            (
                f"({x} {sign} {y})",
                f"({x} % 3)",
                f"coalesce({x}, {y}, 0)",
                f"abs({x})",
                f"{case} ELSE {y} END",
                f"{case} END",
            )
        )

    def other(self) -> str:
        x = self.integer(1)
        numbers = (f"(t.f * {x})", f"CAST({x} AS VARCHAR)", f"CAST({x} AS DOUBLE)", "floor(t.f / 2)", "floor(t.f / -4)")
        texts = ("upper(t.s)", "lower(t.s)", "t.s || '!'", "substring(t.s, 2, 3)")
        return self._one((*numbers, *texts, "t.s", "t.f", "t.d", "t.b"))

    def condition(self, depth: int) -> str:
        if depth:
            x, y = self.condition(depth - 1), self.condition(0)
            compared = f"{self.integer(depth - 1)} {self._one(('<', '=', '>'))} {self.integer(0)}"
            return self._one((f"({x} AND {y})", f"({x} OR {y})", f"NOT ({x})", compared))
        whole = f"t.a {self._one(('=', '<>', '<', '>='))} {self._one(('1', '2', 't.k', '-5'))}"
        real = f"t.f {self._one(('<', '>'))} {self._one(('0.5', 't.a', '-2.5'))}"
        return self._one((whole, real, *SIMPLE_CONDITIONS))


class Ibis:
    """Random queries of ibis, as Python."""

    def __init__(self, random: Random) -> None:
        self._one = random.choice

    def query(self) -> str:
        return self._one((self._rows, self._groups, self._total, self._first, self._set, self._in))()

    def _rows(self) -> str:
        return f"{self._filtered(2)}.select(x={self.integer(2)}, y={self.other()})"

    def _filtered(self, depth: int) -> str:
        return f"T.filter({self.condition(depth)})"

    def _groups(self) -> str:
        keys, having = (
            self._one(("T.a", "T.b", "T.s", "[T.a, T.b]")),
            self._one(("", ".filter(lambda t: t.m.notnull())")),
        )
        rows = f"{self._filtered(1)}.group_by({keys})"
        return f"{rows}.aggregate(m={self._one(IBIS_MEASURES)}, n={self._one(IBIS_MEASURES)}){having}"

    def _total(self) -> str:
        return f"{self._filtered(2)}.aggregate(m={self._one(IBIS_MEASURES)}, n={self._one(IBIS_MEASURES)})"

    def _first(self) -> str:
        order = self._one(("T.k", "T.k.desc()"))
        return f"{self._filtered(1)}.order_by({order}).limit(3).select(T.k, x={self.integer(2)})"

    def _set(self) -> str:
        operation = self._one(("union", "intersect", "difference"))
        return f"{self._filtered(2)}.select(T.k).{operation}(U.select(U.k))"

    def _in(self) -> str:
        return f"T.semi_join(U, T.k == U.k).filter({self.condition(1)})"

    def integer(self, depth: int) -> str:
        if not depth:
            return self._one(("T.k", "T.a", "ibis.literal(3)", "T.f.cast('int64')", "T.s.length()", "T.d.year()"))
        x, y = self.integer(depth - 1), self.integer(0)
        condition = self.condition(depth - 1)
        sign = self._one(("+", "-", "*"))
        return self._one((f"({x} {sign} {y})", f"({x} % 3)", f"({x}).abs()", f"ibis.ifelse({condition}, {x}, {y})"))

    def other(self) -> str:
        x = self.integer(1)
        numbers = (f"(T.f * {x})", f"({x}).cast('string')", f"({x}).cast('float64')", f"({x} / T.k)", "(T.f / 2)")
        texts = ("T.s.upper()", "T.s.lower()", "(T.s + '!')", "T.s.replace('a', 'o')", "T.s.strip()")
        return self._one((*numbers, *texts, "T.s", "T.f", "T.d", "T.b"))

    def condition(self, depth: int) -> str:
        if depth:
            x, y = self.condition(depth - 1), self.condition(0)
            compared = f"({self.integer(depth - 1)} {self._one(('<', '==', '>'))} {self.integer(0)})"
            return self._one((f"({x} & {y})", f"({x} | {y})", f"(~{x})", compared))
        whole = f"(T.a {self._one(('==', '!=', '<', '>='))} {self._one(('1', '2', 'T.k', '-5'))})"
        real = f"(T.f {self._one(('<', '>'))} {self._one(('0.5', 'T.a', '-2.5'))})"
        return self._one((whole, real, *IBIS_CONDITIONS))


@settings(max_examples=tries(2), phases=[Phase.generate])
@given(st.randoms(use_true_random=True))
def test_random_plans_of_duckdb_s_extension(random: Random) -> None:
    queries = sorted({Sql(random).query() for _ in range(AT_ONCE)})
    with tempfile.TemporaryDirectory() as folder:
        for name, table in TABLES.items():
            pq.write_table(table, Path(folder) / f"{name}.parquet")
        plans = written("duckdb_writer.py", folder, queries=queries)
        expected = {query: pq.read_table(plan["answer"]) for query, plan in plans.items() if _is_faithful(plan)}
    assert len(expected) >= len(queries) * (1 - MOST_UNWRITTEN), plans
    assert _wrong(plans, expected) == {}


@settings(max_examples=tries(2), phases=[Phase.generate])
@given(st.randoms(use_true_random=True))
def test_random_plans_of_ibis(random: Random) -> None:
    queries = sorted({Ibis(random).query() for _ in range(AT_ONCE)})
    plans = written("ibis_writer.py", queries=queries)
    oracle = duckdb.connect()
    for name, table in TABLES.items():
        oracle.register(name, table)
    expected = {query: _answer(oracle, plan["sql"]) for query, plan in plans.items() if "plan" in plan}
    assert len(expected) >= len(queries) * (1 - MOST_UNWRITTEN), plans
    assert _wrong(plans, expected) == {}


def _answer(oracle: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """DuckDB's sums of integers have a type of 128 bits: the plans' sums are of 64."""
    rows = oracle.sql(sql).to_arrow_table()
    fields = [field.with_type(pa.int64()) if pa.types.is_decimal(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _is_faithful(plan: Mapping[str, str]) -> bool:
    """True where the producer reads its own plan as the query: if it lost something, nothing in the plan tells."""
    if "again" not in plan:
        return False
    got, wanted = pq.read_table(plan["again"]), pq.read_table(plan["answer"])
    return got.num_columns == wanted.num_columns and held_against(got, wanted).outcome is Outcome.RIGHT


def _wrong(plans: Written, expected: Mapping[str, pa.Table]) -> dict[str, str]:
    """The queries whose answers are not the expected ones. A plan that has a column of nulls without a type, as DuckDB
    writes a CASE that never holds, may be refused by name.
    """
    wrong: dict[str, str] = {}
    with tidegate.local() as client:
        for query, table in expected.items():
            got = answer(client, base64.b64decode(plans[query]["plan"]), TABLES)
            result = held_against(got, table) if isinstance(got, pa.Table) else got
            is_untyped = result.outcome is Outcome.REFUSED and result.note == UNTYPED
            if result.outcome is not Outcome.RIGHT and not is_untyped:
                wrong[query] = f"{result.outcome}: {result.note}"
    return wrong
