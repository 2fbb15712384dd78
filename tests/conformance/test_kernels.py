"""Kernels over small inputs: they give DuckDB's rows, bit for bit, and decline where they cannot know."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

import datafusion
import pyarrow as pa
import pytest
from datafusion.substrait import Serde
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.operators import kernels
from tidegate.operators.arrays.digest import digest
from tidegate.planner.cut import fragments

from ..kernel_answers import noted_answers
from ..searching import tries

EDGES: Final[dict[pa.DataType, list[object]]] = {
    pa.bool_(): [None, False, True],
    pa.int8(): [None, -128, -1, 0, 1, 127],
    pa.int16(): [None, -(2**15), 0, 2**15 - 1],
    pa.int32(): [None, -(2**31), -1, 0, 2, 2**31 - 1],
    pa.int64(): [None, -(2**63), -1, 0, 3, 2**63 - 1],
    pa.float32(): [None, -math.inf, -0.0, 0.0, 1.5, 3e38, math.nan],
    pa.float64(): [None, -math.inf, -0.0, 0.0, 0.1, 1e308, math.nan],
    pa.decimal128(10, 2): [None, Decimal("-99999999.99"), Decimal("0.00"), Decimal("0.01")],
    pa.string(): [None, "", "a", "a ", "é", "z"],
    pa.binary(): [None, b"", b"\x00", b"a", b"\xff"],
    pa.binary(2): [None, b"\x00\x00", b"ab", b"\xff\x00"],
    pa.time64("us"): [None, dt.time(0), dt.time(23, 59, 59, 999_999)],
    pa.date32(): [None, dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2100, 12, 31)],
    pa.timestamp("us"): [None, dt.datetime(1970, 1, 1), dt.datetime(2100, 12, 31, 23, 59)],  # noqa: DTZ001
}
CALCULATED: Final = ("a + b", "a - b", "a * b")
COMPARED: Final = "a = b, a <> b, a < b, a <= b, a > b, a >= b, a IS NULL, b IS NOT NULL, a = b OR b IS NULL"
CASES: Final = [
    *((type_, COMPARED) for type_ in EDGES),
    *((type_, "CASE WHEN a < b THEN a ELSE b END") for type_ in EDGES if type_ != pa.bool_()),
    *(
        (type_, expression)
        for type_ in EDGES
        if pa.types.is_signed_integer(type_) or pa.types.is_floating(type_)
        for expression in CALCULATED
    ),
]


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether kernels answered, each time that they were asked."""
    return noted_answers(monkeypatch)


@contextmanager
def without_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fragments, "SMALL_ROWS", -1)
        yield


def planned(sql: str, schema: pa.Schema) -> bytes:
    session = datafusion.SessionContext()
    session.register_record_batches("t", [[pa.RecordBatch.from_pylist([], schema)]])
    return bytes(Serde.serialize_bytes(sql, session))


def outcome(task: tidegate.Task, rows: pa.Table) -> pa.Table | str:
    """The epoch's rows, or what was wrong."""
    try:
        return task.run_epoch({"t": rows}).table()
    except tidegate.EpochError as error:
        return error.message


def outcomes(client: tidegate.Client, plan: bytes, epochs: list[pa.Table]) -> list[pa.Table | str]:
    with client.create_task(plan, on_error="skip_epoch") as task:
        return [outcome(task, rows) for rows in epochs]


def bits(outcome: pa.Table | str) -> str:
    return outcome if isinstance(outcome, str) else digest(outcome.schema, outcome.to_batches())


@pytest.mark.parametrize(("type_", "expressions"), CASES, ids=lambda value: str(value)[:20])
def test_they_agree_on_every_pair_of_edge_values(
    client: tidegate.Client, answers: list[bool], type_: pa.DataType, expressions: str
) -> None:
    schema = pa.schema([("a", type_), ("b", type_)])
    plan = planned(f"SELECT {expressions} FROM t", schema)
    pairs = [
        pa.table([pa.array([a], type_), pa.array([b], type_)], schema)
        for a, b in itertools.product(EDGES[type_], repeat=2)
    ]
    results = outcomes(client, plan, pairs)
    assert any(answers)
    with without_kernels():
        expected = outcomes(client, plan, pairs)
    assert list(map(bits, results)) == list(map(bits, expected))


def test_what_overflows_is_the_error_that_it_is_in_duckdb(client: tidegate.Client, answers: list[bool]) -> None:
    schema = pa.schema([("a", pa.int64())])
    rows = pa.table([pa.array([1, 2**63 - 1])], schema)
    [result] = outcomes(client, planned("SELECT a + 1 FROM t", schema), [rows])
    assert answers
    assert not any(answers)
    assert "Overflow" in str(result)


@pytest.mark.parametrize(
    "nested",
    [
        pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
        pa.array([[{"x": 1}], None, []]),
        pa.array([[1, None], None, []]),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("sql", ["SELECT n, i FROM t", "SELECT i, n FROM t WHERE i > 0"])
def test_nested_values_beside_them_stay_as_they_are(client: tidegate.Client, sql: str, nested: pa.Array) -> None:
    rows = pa.table({"n": nested, "i": [1, 2, 3]})
    [result] = outcomes(client, planned(sql, rows.schema), [rows])
    assert isinstance(result, pa.Table)
    assert result.column("n").to_pylist() == nested.to_pylist()


# --- whole statements ----------------------------------------------------------------------------------------------

SCHEMA: Final = pa.schema(
    [("k", pa.int64()), ("i", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32())]
)
VALUES: Final = st.lists(
    st.tuples(
        st.none() | st.integers(0, 4),
        st.none() | st.integers(-9, 9) | st.sampled_from([2**31 - 1, -(2**31)]),
        st.none() | st.floats(-9, 9) | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1e308]),
        st.none() | st.sampled_from(["", "a", "b'", "é"]),
        st.none() | st.dates(dt.date(1999, 12, 30), dt.date(2000, 1, 2)),
    ),
    max_size=30,
)
CONDITIONS: Final = [
    "k > 1",
    "i < 0 OR f > 0",
    "NOT (k = i)",
    "s IS NULL AND d > DATE '2000-01-01'",
    "s >= 'a'",
    "f <> 1.5",
    "CASE WHEN k = 2 THEN i > 0 ELSE f < 1 END",
]
PROJECTIONS: Final = ["k, i, f, s, d", "k + 1 AS k, i * 2 AS i, f - 0.5 AS f, s, d", "i + k AS k, i, f * f AS f, s, d"]
ROW_WISE: Final = st.builds(
    "SELECT {0} FROM (SELECT * FROM t WHERE {1}) WHERE {2}".format,
    st.sampled_from(PROJECTIONS),
    st.sampled_from(CONDITIONS),
    st.sampled_from(CONDITIONS),
)
MEASURES: Final = st.sampled_from(
    ["count(*)", "sum(i), count(f)", "min(f), max(d)", "sum(f), min(i)", "sum(k * 2), max(i)"]
)
KEYS: Final = st.sampled_from(["k", "s", "d, k", "k, s, d", "k > 1", "i"])
GROUPED: Final = st.builds("SELECT {0}, {1} FROM ({2}) GROUP BY {0}".format, KEYS, MEASURES, ROW_WISE)
TOTALS: Final = st.builds("SELECT {0} FROM ({1})".format, MEASURES, ROW_WISE)


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def multiset(outcome: pa.Table | str) -> Counter[str]:
    if isinstance(outcome, str):
        return Counter([outcome])
    return Counter(bits(outcome.slice(at, 1)) for at in range(outcome.num_rows))


@settings(max_examples=tries(40))
@given(ROW_WISE, st.lists(VALUES, min_size=1, max_size=3))
def test_rows_are_the_same_in_the_same_order(
    client: tidegate.Client, sql: str, epochs: list[list[tuple[object, ...]]]
) -> None:
    plan, tables = planned(sql, SCHEMA), list(map(table, epochs))
    results = outcomes(client, plan, tables)
    with without_kernels():
        assert list(map(bits, results)) == list(map(bits, outcomes(client, plan, tables)))


@settings(max_examples=tries(40))
@given(GROUPED | TOTALS, st.lists(VALUES, min_size=1, max_size=3))
def test_groups_are_the_same(client: tidegate.Client, sql: str, epochs: list[list[tuple[object, ...]]]) -> None:
    plan, tables = planned(sql, SCHEMA), list(map(table, epochs))
    results = outcomes(client, plan, tables)
    with without_kernels():
        assert list(map(multiset, results)) == list(map(multiset, outcomes(client, plan, tables)))


def test_groups_come_in_order_of_their_first_rows(client: tidegate.Client, answers: list[bool]) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    rows = pa.table([[3, None, 3, 1, None], ["b", "a", "b", "b", None]], schema)
    [result] = outcomes(client, planned("SELECT k, s, count(*) AS n FROM t GROUP BY k, s", schema), [rows])
    assert answers == [True]
    assert isinstance(result, pa.Table)
    assert result.to_pydict() == {"k": [3, None, 1, None], "s": ["b", "a", "b", None], "n": [2, 1, 1, 1]}


def test_more_rows_than_kernels_take_are_duckdbs(client: tidegate.Client, answers: list[bool]) -> None:
    schema = pa.schema([("k", pa.int64())])
    plan = planned("SELECT k FROM t WHERE k > 0", schema)
    epochs = [pa.table([pa.array(range(rows))], schema) for rows in (kernels.SMALL_ROWS, kernels.SMALL_ROWS + 1)]
    results = outcomes(client, plan, epochs)
    assert answers == [True]
    assert [len(result) for result in results] == [kernels.SMALL_ROWS - 1, kernels.SMALL_ROWS]


def test_explain_says_where_there_are_kernels(client: tidegate.Client) -> None:
    def text(sql: str) -> str:
        return client.explain(planned(sql, SCHEMA)).text

    assert "kernels for few rows" in text("SELECT k, sum(i) FROM t WHERE f > 1 GROUP BY k")
    assert "kernels for few rows" not in text("SELECT k, sum(i) FROM t WHERE s LIKE '%a' GROUP BY k")
    assert "kernels for few rows" not in text(f"SELECT k{' + 1' * 70} FROM t")
