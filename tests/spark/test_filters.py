"""Filters that Spark pushes into a plan: its rows are those that Python keeps by Spark's own rules."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from google.protobuf.json_format import MessageToDict, MessageToJson
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

import tidegate
from tidegate.proto.values import PlanBytes
from tidegate.spark.data_source.filters import pushed
from tidegate.spark.data_source.plan_parts import part_of

UTC = dt.UTC
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 4, 5], pa.int32()),
        "l": pa.array([10, -1, 0, None, 2**40], pa.int64()),
        "s": ["abc", "", None, "xabc", "ab"],
        "b": [True, False, None, True, False],
        "d": pa.array([dt.date(2024, 1, day) if day else None for day in (1, 2, 0, 4, 5)], pa.date32()),
        "m": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal(0), Decimal("99.99")], pa.decimal128(9, 2)),
        "t": pa.array([dt.datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(5)], pa.timestamp("us", "UTC")),
        "n": pa.array([None, *[dt.datetime(2024, 1, 1, hour) for hour in range(4)]], pa.timestamp("us")),  # noqa: DTZ001
        "f": [1.0, float("nan"), None, -0.0, 5.0],
    }
)
COLUMNS = {
    "i": sub.i32,
    "l": sub.i64,
    "s": sub.string,
    "b": sub.boolean,
    "d": sub.date,
    "m": sub.decimal(2, 9),
    "t": sub.precision_timestamp_tz(6),
    "n": sub.precision_timestamp(6),
    "f": sub.fp64,
}

_TESTS: Mapping[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda have, value: have == value,
    GreaterThan: lambda have, value: have > value,
    GreaterThanOrEqual: lambda have, value: have >= value,
    LessThan: lambda have, value: have < value,
    LessThanOrEqual: lambda have, value: have <= value,
    In: lambda have, value: have in value,
    StringStartsWith: lambda have, value: have.startswith(value),
    StringEndsWith: lambda have, value: have.endswith(value),
    StringContains: lambda have, value: value in have,
}


def kept(filter_: Any, row: Mapping[str, Any]) -> bool | None:
    """SQL's truth: None is neither."""
    if isinstance(filter_, Not):
        inner = kept(filter_.child, row)
        return None if inner is None else not inner
    have = row[filter_.attribute[0]]
    if isinstance(filter_, IsNull | IsNotNull):
        return (have is None) is isinstance(filter_, IsNull)
    return None if have is None else _TESTS[type(filter_)](have, filter_.value)


def plan(**columns: Any) -> Any:
    return sub.read_named_table("rows", columns).select(*columns).to_plan()


def encoded(message: Any, *, as_json: bool) -> PlanBytes:
    return PlanBytes(json=MessageToJson(message)) if as_json else PlanBytes(binary=message.SerializeToString())


FILTERS = [
    [EqualTo(("i",), 2)],
    [Not(EqualTo(("i",), 2))],
    [GreaterThan(("l",), -1), LessThanOrEqual(("i",), 5)],
    [GreaterThanOrEqual(("i",), -(2**31)), LessThan(("i",), 2**31 - 1)],
    [LessThan(("l",), 2**40), GreaterThanOrEqual(("l",), 0), IsNotNull(("i",))],
    [In(("s",), ("abc", "ab", "nowhere"))],
    [Not(In(("l",), (10, 0)))],
    [IsNull(("s",))],
    [EqualTo(("b",), True)],
    [Not(EqualTo(("b",), True))],
    [GreaterThan(("d",), dt.date(2024, 1, 2))],
    [EqualTo(("m",), Decimal("-2.25"))],
    [LessThan(("m",), Decimal("1.5"))],
    [GreaterThanOrEqual(("t",), dt.datetime(2024, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))))],
    [LessThan(("n",), dt.datetime(2024, 1, 1, 2))],  # noqa: DTZ001
    [StringStartsWith(("s",), "ab"), StringEndsWith(("s",), "c")],
    [StringContains(("s",), "b")],
    [IsNull(("f",))],
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("as_json", [False, True], ids=["binary", "json"])
def test_a_plan_keeps_the_rows_that_pass_sparks_filters(filters: list[Any], as_json: bool) -> None:
    assert pushed(filters, ROWS.schema) == (filters, [])
    part = part_of(encoded(plan(**COLUMNS), as_json=as_json), ROWS.schema, None, None, filters)
    with tidegate.local() as client:
        answer = client.query(part.json or part.binary, {"rows": ROWS}, determinism="strict")
    expected = [row for row in ROWS.to_pylist() if all(kept(one, row) is True for one in filters)]
    assert [str(row) for row in answer.to_pylist()] == [str(row) for row in expected]


def test_filters_come_after_the_limit_and_name_the_chosen_columns() -> None:
    message = sub.read_named_table("rows", COLUMNS).filter(sub.col("i") > sub.lit(0, sub.i32)).to_plan()
    part = part_of(encoded(message, as_json=False), ROWS.schema, ["s", "l"], 3, [GreaterThan(("l",), 0)])
    with tidegate.local() as client:
        answer = client.query(part.binary, {"rows": ROWS}, determinism="strict")
    assert answer.to_pylist() == [{"s": "abc", "l": 10}]  # of the first three rows, 10, -1 and null


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("f",), 1.0),
        EqualTo(("i", "inner"), 1),
        EqualTo(("nowhere",), 1),
        EqualTo(("i",), "1"),
        EqualTo(("i",), True),
        LessThan(("i",), 2**31),
        GreaterThan(("i",), -(2**31) - 1),
        EqualTo(("m",), Decimal("1.505")),
        EqualTo(("n",), dt.datetime(2024, 1, 1, tzinfo=UTC)),
        EqualTo(("i",), None),
        In(("i",), (1, None)),
        In(("i",), tuple(range(2_000))),
        EqualNullSafe(("i",), 1),
        Not(EqualTo(("f",), 1.0)),
    ],
    ids=str,
)
def test_a_filter_that_may_mean_something_else_is_left_to_spark(filter_: Any) -> None:
    assert pushed([filter_], ROWS.schema) == ([], [filter_])


@pytest.mark.parametrize("snake_case", [False, True])
def test_a_plan_of_an_old_release_keeps_its_functions_and_all_rows(snake_case: bool) -> None:
    """Its functions have numbers, and a fetch without a count has no rows there. JSON may spell fields in two ways."""
    message = sub.read_named_table("rows", COLUMNS).filter(sub.col("i") > sub.lit(0, sub.i32)).to_plan()
    document = MessageToDict(message, preserving_proto_field_name=snake_case)
    urns, anchor, reference = (
        ("extension_urns", "extension_urn_anchor", "extension_urn_reference")
        if snake_case
        else ("extensionUrns", "extensionUrnAnchor", "extensionUrnReference")
    )
    document[urns.replace("rn", "ri")] = [
        {anchor.replace("rn", "ri"): urn[anchor], "uri": "/functions_comparison.yaml"} for urn in document.pop(urns)
    ]
    for extension in document["extensions"]:
        for body in extension.values():
            body[reference.replace("rn", "ri")] = body.pop(reference)
    plan_bytes = PlanBytes(json=json.dumps(document))
    part = part_of(plan_bytes, ROWS.schema, ["s", "l"], None, [GreaterThan(("l",), -5), IsNotNull(("s",))])
    expected = [
        {"s": row["s"], "l": row["l"]}
        for row in ROWS.to_pylist()
        if (row["i"] or 0) > 0 and row["l"] is not None and row["l"] > -5 and row["s"] is not None
    ]
    assert expected
    with tidegate.local() as client:
        assert client.query(part.json, {"rows": ROWS}, determinism="strict").to_pylist() == expected
