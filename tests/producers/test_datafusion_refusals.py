"""Plans for which DuckDB would give another answer than DataFusion: they are refused, or their rows are an error."""

from __future__ import annotations

from collections.abc import Iterator

import datafusion
import pytest

import tidegate

from .datafusion_tables import TABLES, planned, session
from .outcomes import Result, answer


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as local:
        yield local


@pytest.fixture(scope="module")
def context() -> datafusion.SessionContext:
    return session()


@pytest.mark.parametrize(
    "cast",
    [
        "arrow_cast(u, 'List(Int64)')",
        "arrow_cast(u, 'List(Utf8)')",
        "arrow_cast(w, 'List(Int64)')",
        "arrow_cast([u], 'List(List(Int64))')",
    ],
)
def test_a_cast_that_differs_inside_is_refused(
    cast: str, client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    (problem,) = client.validate(planned(f"SELECT {cast} FROM n", context))
    assert problem.reason == "BAD_CAST"
    assert problem.message.startswith("the plan's producer casts")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT l < m FROM n",
        "SELECT greatest(l, m) FROM n",
        "SELECT l FROM n ORDER BY l NULLS FIRST",
        "SELECT id, rank() OVER (ORDER BY l DESC NULLS LAST) FROM n",
        "SELECT array_agg(id ORDER BY l NULLS FIRST) FROM n",
        "SELECT array_sort(make_array(l, m)) FROM n",
        "SELECT st <= named_struct('a', 2, 'b', 'x') FROM st",
    ],
)
def test_an_order_of_nulls_inside_is_an_error(
    query: str, client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    got = answer(client, planned(query, context), TABLES)
    assert isinstance(got, Result), got
    assert "TaskFailed" in got.note
    assert "a null inside of a list or struct" in got.note


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT sqrt(f) FROM t", "sqrt outside its domain"),
        ("SELECT decode(concat('abc', q), 'hex') FROM t", "hex of an odd number of digits"),
        ("SELECT decode(concat('ab', q), 'base64') FROM t", "base64 whose last digit"),
        ("SELECT to_timestamp_micros(i - 9223372036854775800) FROM t WHERE i > 0", "before the year -290308"),
    ],
)
def test_what_datafusion_does_not_compute_is_an_error(
    query: str, says: str, client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    got = answer(client, planned(query, context), TABLES)
    assert isinstance(got, Result), got
    assert "TaskFailed" in got.note
    assert says in got.note
