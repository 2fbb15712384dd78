"""A plan is refused if it has a text that holds no value of the type that it is cast to or compared with."""

from __future__ import annotations

from collections.abc import Iterator

import datafusion
import pyarrow as pa
import pytest
from datafusion.substrait import Producer

import tidegate
from tidegate.proto.errors import PlanError

ROWS = pa.table(
    {
        "k": pa.array([1, 2, None]),
        "x": pa.array([0.5, None, 2.0]),
        "d": pa.array([0, 1, None], pa.date32()),
        "p": pa.array([1, None, 3], pa.decimal128(9, 2)),
    }
)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


def plan(sql: str) -> bytes:
    """DataFusion's plan before its optimizer, which would read the text itself."""
    context = datafusion.SessionContext()
    context.from_arrow(ROWS, name="t")
    encoded: bytes = Producer.to_substrait_plan(context.sql(sql).logical_plan(), context).encode()
    return encoded


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("SELECT k = 'x' FROM t", ["'x' is no i64"]),
        ("SELECT k FROM t WHERE k = 'x'", ["'x' is no i64"]),
        ("SELECT k FROM t WHERE k BETWEEN 'a' AND '9' OR x > 'b'", ["'a' is no i64", "'b' is no fp64"]),
        ("SELECT k FROM t WHERE d = 'nope'", ["'nope' is no date"]),
        ("SELECT CAST('2024-02-30' AS DATE) FROM t", ["'2024-02-30' is no date"]),
        ("SELECT p = '1,5' FROM t", ["'1,5' is no decimal"]),
        ("SELECT max(k) FROM t GROUP BY CAST('true!' AS BOOLEAN)", ["'true!' is no bool"]),
        ("SELECT CASE WHEN k = 'x' THEN 1 END FROM t", ["'x' is no i64"]),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k AND a.d > 'x'", ["'x' is no date"]),
        ("SELECT k FROM t WHERE k IN (SELECT k FROM t WHERE x = 'y')", ["'y' is no fp64"]),
    ],
)
def test_a_text_without_a_value_is_a_problem_of_the_plan(sql: str, texts: list[str], client: tidegate.Client) -> None:
    problems = client.validate(plan(sql))
    assert [problem.reason for problem in problems] == ["BAD_CAST"] * len(texts)
    assert all(any(text in problem.message for problem in problems) for text in texts)
    assert all(problem.place.startswith("relations[0]") for problem in problems)
    with pytest.raises(PlanError, match="is no "):
        client.create_task(plan(sql))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k = '1' FROM t", [True, False, None]),
        ("SELECT k FROM t WHERE d = '1970-01-02'", [2]),
        ("SELECT TRY_CAST('x' AS BIGINT) FROM t", [None, None, None]),
        ("SELECT CASE WHEN k > 9 THEN CAST('x' AS BIGINT) ELSE k END FROM t", [1, 2, None]),
        ("SELECT coalesce(k, 'x') FROM t WHERE k IS NOT NULL", [1, 2]),
    ],
)
def test_a_text_with_a_value_or_that_no_row_reaches_is_none(
    sql: str, expected: list[object], client: tidegate.Client
) -> None:
    with client.create_task(plan(sql)) as task:
        assert task.run_epoch({"t": ROWS}).table().column(0).to_pylist() == expected
