"""The plans whose planning `benchmarks.plan_limits` measures: every kind of relation and expression is in them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pytest

import tidegate
from benchmarks import plan_limits
from benchmarks.plan_kinds import KINDS
from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding import limits
from tidegate.planner.decode.expressions import CONVERTERS as EXPRESSIONS
from tidegate.planner.decode.relations import CONVERTERS as RELATIONS
from tidegate.planner.decode.relations.extension import CONVERTERS as EXTENSIONS
from tidegate.planner.prepare import prepare
from tidegate.proto.values import PlanBytes, TaskOptions

SMALL = 2
ELSEWHERE = {"write", "tidegate.v1.UserOperator"}
"""A plan writes once, at its root; the owner's operators are code."""


def keys(value: Any) -> Iterator[str]:
    """The keys and the types of the messages in a plan's JSON."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield inside.rpartition("/")[2] if key == "@type" else key
            yield from keys(inside)


def snake(key: str) -> str:
    return key if "." in key else "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def test_every_kind_of_relation_and_expression_is_repeated() -> None:
    there = {snake(key) for make in KINDS.values() for key in keys(make(SMALL).plan())}
    ours = {name for names in EXTENSIONS.values() for name in names}
    assert {*RELATIONS, *EXPRESSIONS, *ours} - there == ELSEWHERE


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_a_plan(kind: str) -> None:
    decoded = decode_plan(PlanBytes(json=json.dumps(KINDS[kind](SMALL).plan())))
    static = [plan_limits.STATIC] if "look-up" in kind else []
    assert prepare(decoded, TaskOptions(), static).schema.names


WRITTEN_OUT: Final[Mapping[str, Callable[[Any, int], int | None]]] = {
    "list of literals in each other": lambda value, at: int(value in (at, at + 1)),
    "list of values in each other": lambda value, at: int(value == at),  # or the column, which is far from all of them
    "between in each other": lambda value, at: int(at <= value <= at + 1),
    "search of a list in each other": lambda value, at: int(value in (at, at + 1)),
    "switch in each other": lambda value, _: {0: 1, 1: 2}.get(value, -1),
    "nullif in each other": lambda value, at: None if value == at else value,
}
ASKED: Final = 5
"""What each subquery gives."""
WITH_SUBQUERIES: Final[Mapping[str, Callable[[Any, int], int | None]]] = {
    "list with a subquery in each other": lambda value, at: int(value in (ASKED, at)),
    "between a subquery and a number in each other": lambda value, at: int(ASKED <= value <= at + 1),
    "search of a list with a subquery in each other": lambda value, at: int(value in (ASKED, at)),
    "nullif with a subquery in each other": lambda value, _: None if value == ASKED else value,
}
NUMBER: Final = pa.schema([pa.field("c0", pa.int64(), nullable=False)])


@pytest.mark.parametrize("kind", WRITTEN_OUT)
def test_operands_that_duckdb_writes_out_several_times_are_planned_and_answered_forty_deep(kind: str) -> None:
    """Class of bug: the SQL that DuckDB plans doubled with each level, and forty levels never ended."""
    column = [100, 1000] if "values" in kind else [*range(-3, 6)]
    expected = [functools.reduce(WRITTEN_OUT[kind], range(40), one) for one in column]
    plan = json.dumps(KINDS[kind](40).plan())
    with tidegate.local() as client:
        (answer,) = client.query(plan, {"t": pa.table({"c0": column}, schema=NUMBER)}).columns
    assert answer.to_pylist() == expected


@pytest.mark.parametrize("kind", WITH_SUBQUERIES)
def test_operands_beside_subqueries_are_planned_and_answered_twenty_deep(kind: str) -> None:
    """Class of bug: what has a subquery beside it got no name, because DuckDB has no subqueries in lambdas."""
    column = [*range(-3, 8)]
    expected = [functools.reduce(WITH_SUBQUERIES[kind], range(20), one) for one in column]
    asked = {f"m{at}": pa.table({"c0": [ASKED]}, schema=NUMBER) for at in range(3)}
    with tidegate.local() as client:
        rows = {"t": pa.table({"c0": column}, schema=NUMBER), **asked}
        (answer,) = client.query(json.dumps(KINDS[kind](20).plan()), rows).columns
    assert answer.to_pylist() == expected


@pytest.mark.parametrize("kind", ["chain of filter", "case in each column", "literals"])
def test_the_largest_plan_is_just_within_the_limits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("RELATIONS", 300), ("NODES", 600), ("LITERALS", 900)):
        monkeypatch.setattr(limits, name, limits.Limit(what="parts", most=most, instead="less"))
    size = plan_limits.largest(kind)
    counted = plan_limits.counts(kind, size)
    assert any(0.8 * most < count <= most for count, most in zip(counted, (300, 600, 900), strict=False))


def test_a_plan_is_measured() -> None:
    measured = plan_limits.measure("chain of filter", SMALL, {"mode": "per_epoch"})
    assert measured["task"] > 0
    assert measured["epoch"] > 0
    refused = plan_limits.measure("chain of fetch", SMALL, {"mode": "continuous"})
    assert refused["reason"] == "LIMIT_WITHOUT_SORT"
