"""Aggregates of a subquery whose columns are all an enclosing query's: SQL means aggregates of that query by these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tidegate.planner import ir

from ..build import I64, aggregate, asc, call, col, filtered, lit, measure, plan, project, read, subquery
from ..running import rows

OUTER, INNER = [1, 2, 5, None], [10, 20, 20]
X, A = col(0, I64, outer=1), col(0, I64)

#: A measure, and what it is of a value of the enclosing row, over all rows of the subquery.
MEASURES: dict[str, tuple[ir.Measure, Callable[[int | None], Any]]] = {
    "sum": (measure("sum", X), lambda x: None if x is None else x * len(INNER)),
    "count": (measure("count", X), lambda x: 0 if x is None else len(INNER)),
    "distinct": (measure("count", X, distinct=True), lambda x: int(x is not None)),
    "computed": (measure("max", call("add", X, lit(1))), lambda x: None if x is None else x + 1),
    "sorted by its own": (measure("sum", X, sorts=(asc(A),)), lambda x: None if x is None else x * len(INNER)),
    "condition alone": (
        measure("count", condition=call("gt", X, lit(1))),
        lambda x: 0 if x is None or x <= 1 else len(INNER),
    ),
    "both": (
        measure("sum", X, condition=call("gt", X, lit(1))),
        lambda x: None if x is None or x <= 1 else x * len(INNER),
    ),
}


def scalar(aggregated: ir.Measure, keys: Sequence[ir.Expression] = (), **how: Any) -> ir.Subquery:
    grouped = aggregate(read("t", a=I64), keys, aggregated, **how)
    if keys:  # the greatest of the groups' results
        grouped = aggregate(grouped, [], measure("max", col(len(keys), aggregated.type)))
    return subquery(ir.SubqueryKind.SCALAR, grouped)


def answer(relation: ir.Relation) -> list[tuple[Any, ...]]:
    tables = {"o": pa.table({"x": pa.array(OUTER, pa.int64())}), "t": pa.table({"a": pa.array(INNER, pa.int64())})}
    return rows(plan(relation), tables)


@pytest.mark.parametrize("name", MEASURES)
def test_they_are_of_the_subquerys_rows_where_nothing_else_is_selected(name: str) -> None:
    aggregated, expected = MEASURES[name]
    selected = project(read("o", x=I64), scalar(aggregated))
    assert sorted(answer(selected), key=str) == sorted(((expected(x),) for x in OUTER), key=str)


@pytest.mark.parametrize("name", MEASURES)
def test_they_are_of_the_subquerys_rows_in_a_condition(name: str) -> None:
    aggregated, expected = MEASURES[name]
    kept = filtered(read("o", x=I64), call("gt", scalar(aggregated), lit(3)))
    assert sorted(answer(kept)) == [(x,) for x in OUTER if x is not None and (expected(x) or 0) > 3]


@pytest.mark.parametrize("sets", [None, [[0], []]], ids=["groups", "grouping sets"])
def test_they_are_of_the_rows_of_their_group(sets: Sequence[Sequence[int]] | None) -> None:
    selected = project(read("o", x=I64), scalar(measure("sum", X), [A], sets=sets))
    most = INNER.count(20) if sets is None else len(INNER)
    expected = [(None if x is None else x * most,) for x in OUTER]
    assert sorted(answer(selected), key=str) == sorted(expected, key=str)
