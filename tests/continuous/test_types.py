"""Values of every type come, are told apart, and go again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

import tidegate

from .histories import Integral, multiset, planned, rows_of

NAN: Final = float("nan")
VALUES: Final[dict[pa.DataType, list[Any]]] = {
    pa.int8(): [1, -1],
    pa.uint64(): [2**63, 1],
    pa.float32(): [0.5, NAN],
    pa.float64(): [-0.0, NAN],
    pa.bool_(): [True, False],
    pa.string(): ["a", "é"],
    pa.binary(): [b"\x00", b""],
    pa.binary(3): [b"abc", b"xyz"],
    pa.date32(): [dt.date(2020, 1, 1), dt.date(1960, 2, 2)],
    pa.time64("us"): [dt.time(1, 2, 3, 4), dt.time(0)],
    pa.timestamp("us"): [dt.datetime(2020, 1, 1, 1, 2, 3, 4), dt.datetime(1960, 1, 1)],  # noqa: DTZ001 - a local time
    pa.timestamp("us", "UTC"): [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    pa.decimal128(38, 10): [Decimal("1.5"), Decimal("-99999999999.5")],
    pa.list_(pa.float64()): [[1.0, NAN, None], []],
    pa.struct([("p", pa.int64()), ("q", pa.string())]): [{"p": 1, "q": "x"}, {"p": None, "q": None}],
    pa.list_(pa.struct([("p", pa.int64())])): [[{"p": 1}, None], []],
    pa.map_(pa.int64(), pa.list_(pa.float64())): [[(1, [NAN])], []],
}
QUERIES: Final = (
    "SELECT x FROM a",
    "SELECT x, count(*) AS n FROM a GROUP BY x",
    "SELECT a.x, b.x AS y FROM a LEFT JOIN b ON a.x = b.x",
    "SELECT x FROM a EXCEPT SELECT x FROM b",
)


@pytest.fixture(scope="module")
def local() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_values_of_a_type(local: tidegate.Client, type_: pa.DataType, sql: str) -> None:
    schema = pa.schema([("x", type_)])
    plan = planned(sql, {"a": schema, "b": schema})
    one, other = VALUES[type_]
    tables = {
        "a": pa.table({"x": pa.array([one, other, None, one], type_)}),
        "b": pa.table({"x": pa.array([other, None], type_)}),
    }
    extra = pa.table({"x": pa.array([other, one], type_), "_weight": [3, -1]})
    undone = pa.table({"x": pa.array([one, other], type_), "_weight": [1, -3]})
    with local.create_task(plan) as task:
        right = multiset(rows_of(task.run_epoch({name: tables[name] for name in task.sources}).table()))
    with local.create_task(plan, mode="continuous", channels=2) as task:
        integral = Integral()
        integral.add(task.run_epoch({name: tables[name] for name in task.sources}).table())
        assert integral.rows == right
        integral.add(task.run_epoch({"a": tidegate.Changes(extra)}).table())
        integral.add(task.run_epoch({"a": tidegate.Changes(undone)}).table())
    assert integral.rows == right


def test_intervals_of_months_are_refused_by_name(local: tidegate.Client) -> None:
    plan = planned("SELECT INTERVAL '1 month' AS i, x FROM a", {"a": pa.schema([("x", pa.int64())])})
    (problem,) = local.validate(plan, mode="continuous")
    assert problem.reason == "UNSUPPORTED_TYPE"
