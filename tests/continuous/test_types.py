"""Values of every type come, are told apart, and go again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from substrait.plan_pb2 import Plan

import tidegate
from tidegate.proto.arrow.nested_types import with_types

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
UUIDS: Final = {
    pa.uuid(): [bytes(16), bytes(range(16)), bytes([255] * 16)],
    pa.list_(pa.uuid()): [[], [bytes(16), bytes(range(16))], [bytes(range(16))]],
    pa.struct([("p", pa.uuid()), ("q", pa.int64())]): [{"p": bytes(16), "q": 1}, {"p": bytes(range(16)), "q": 1}],
    pa.map_(pa.int64(), pa.uuid()): [[], [(1, bytes(16))], [(1, None)]],
}
MORE_QUERIES: Final = (
    "SELECT x FROM a ORDER BY x DESC NULLS LAST LIMIT 2",
    "SELECT x FROM a WHERE x IN (SELECT x FROM b)",
)


FAR: Final = 8 * 10**18
"""The microseconds from 1970 to the year 255479: Python's moments end with 9999."""


def _lists(numbers: list[int], type_: pa.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(list(range(len(numbers) + 1)), pa.array(numbers).cast(type_))


def _maps(numbers: list[int]) -> pa.Array:
    days = pa.array(numbers, pa.int32()).cast(pa.date32())
    return pa.MapArray.from_arrays(list(range(len(numbers) + 1)), pa.array([1] * len(numbers)), days)


BEYOND_PYTHON: Final[dict[str, pa.Array]] = {
    "years in lists": _lists([FAR, FAR + 1, FAR], pa.timestamp("us")),
    "instants in lists": _lists([FAR, FAR + 1, FAR], pa.timestamp("us", "UTC")),
    "nanoseconds in lists": _lists([1, 2, 1], pa.timestamp("ns")),
    "years in structs": pa.StructArray.from_arrays([pa.array([FAR, FAR + 1, FAR], pa.timestamp("us"))], ["p"]),
    "days in maps": _maps([2**30, 2**30 + 1, 2**30]),
}


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


def _with_bytes(type_: pa.DataType) -> pa.DataType:
    """The type with bytes in place of UUIDs, of which pyarrow makes arrays."""
    return pa.binary(16) if type_ == pa.uuid() else with_types(type_, _with_bytes)


def _with_uuids(message: Any) -> Any:
    """A plan, as a dictionary, with UUIDs in place of all bytes: DataFusion has none."""
    if isinstance(message, list):
        return [_with_uuids(part) for part in message]
    if not isinstance(message, dict):
        return message
    return {
        "uuid" if name == "fixedBinary" else name: {"nullability": part["nullability"]}
        if name == "fixedBinary"
        else _with_uuids(part)
        for name, part in message.items()
    }


@pytest.mark.parametrize("sql", [*QUERIES, *MORE_QUERIES])
@pytest.mark.parametrize("type_", UUIDS, ids=str)
def test_uuids_alone_and_inside_of_others(local: tidegate.Client, type_: pa.DataType, sql: str) -> None:
    schema = pa.schema([("x", _with_bytes(type_))])
    asked = Plan.FromString(planned(sql, {"a": schema, "b": schema}))
    plan = ParseDict(_with_uuids(MessageToDict(asked)), Plan())
    one, other, *others = UUIDS[type_]

    def table(*values: Any) -> pa.Table:
        return pa.table({"x": pa.array(values, _with_bytes(type_)).view(type_)})

    tables = {"a": table(one, other, None, one, *others), "b": table(other, None)}
    undone = tidegate.Changes(table(other, one).append_column("_weight", pa.array([-1, -2])))
    with local.create_task(plan) as task:
        first, second = ({**tables, "a": rows} for rows in (tables["a"], table(None, *others)))
        right = [
            multiset(rows_of(task.run_epoch({name: fed[name] for name in task.sources}).table()))
            for fed in (first, second)
        ]
    with local.create_task(plan, mode="continuous", channels=2) as task:
        integral = Integral()
        for expected, fed in zip(right, ({name: tables[name] for name in task.sources}, {"a": undone}), strict=True):
            integral.add(task.run_epoch(fed).table())
            assert integral.rows == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) AS n FROM (SELECT DISTINCT x FROM a)", 2),
        ("SELECT count(*) AS n FROM a JOIN b ON a.x = b.x", 2),
        ("SELECT count(*) AS n FROM (SELECT x FROM a EXCEPT SELECT x FROM b)", 1),
        ("SELECT count(*) AS n FROM (SELECT first_value(x) OVER (ORDER BY k) AS y, k FROM a) GROUP BY y", 3),
        ("SELECT max(k) AS n FROM (SELECT k FROM a ORDER BY k DESC LIMIT 1)", 2),
    ],
)
@pytest.mark.parametrize("values", BEYOND_PYTHON.values(), ids=BEYOND_PYTHON)
def test_moments_inside_of_values_may_lie_beyond_those_of_python(
    local: tidegate.Client, values: pa.Array, sql: str, expected: int
) -> None:
    rows = pa.table({"x": values, "k": [0, 1, 2]})
    plan = planned(sql, {"a": rows.schema, "b": rows.schema})
    with local.create_task(plan, mode="continuous") as task:
        whole = {"a": rows, "b": rows.slice(0, 1)}
        assert task.run_epoch({name: whole[name] for name in task.sources}).table()["n"].to_pylist() == [expected]


@pytest.mark.parametrize("values", BEYOND_PYTHON.values(), ids=BEYOND_PYTHON)
def test_moments_beyond_those_of_python_are_told_apart_in_the_result(local: tidegate.Client, values: pa.Array) -> None:
    rows = pa.table({"x": values})
    with local.create_task(planned("SELECT x FROM a", {"a": rows.schema}), mode="continuous") as task:
        assert task.run_epoch({"a": rows}).table()["_weight"].to_pylist() == [2, 1]


def test_intervals_of_months_are_refused_by_name(local: tidegate.Client) -> None:
    plan = planned("SELECT INTERVAL '1 month' AS i, x FROM a", {"a": pa.schema([("x", pa.int64())])})
    (problem,) = local.validate(plan, mode="continuous")
    assert problem.reason == "UNSUPPORTED_TYPE"
