"""The bound on correlated subqueries: DuckDB's planner takes the fifth power of their number and cannot be stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.planner.build import I64, call, col, eq, filtered, plan, project, read, subquery
from tidegate.planner import ir
from tidegate.planner.prepare import prepare
from tidegate.planner.sql.correlated_subqueries import most
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions


def exists(relation: ir.Relation | None = None) -> ir.Subquery:
    """One that reads the row around it."""
    inner = relation if relation is not None else read("m", x=I64)
    return subquery(ir.SubqueryKind.EXISTS, filtered(inner, eq(col(0), col(0, outer=1))))


def some(number: int, below: ir.Relation) -> ir.Relation:
    condition: ir.Expression = exists()
    for _ in range(number - 1):
        condition = call("and", condition, exists())
    return filtered(below, condition)


def of_two_filters(number: int) -> ir.Relation:
    return some(number - number // 2, some(number // 2, read("s", x=I64)))


def in_one_another(number: int) -> ir.Relation:
    inner = read("m", x=I64)
    for _ in range(number):
        inner = filtered(read("m", x=I64), exists(inner))
    return inner


def as_columns(number: int) -> ir.Relation:
    return project(read("s", x=I64), *(exists() for _ in range(number)))


def wide(columns: int, number: int) -> ir.Relation:
    return some(number, read("s", **{f"x{at}": I64 for at in range(columns)}))


def planned(relation: ir.Relation) -> None:
    prepare(plan(relation), TaskOptions())


@pytest.mark.parametrize(
    "relation_of",
    [lambda number: some(number, read("s", x=I64)), of_two_filters, in_one_another, as_columns],
    ids=["of one filter", "of two filters", "in one another", "as columns"],
)
def test_as_many_as_the_bound_says_are_planned_and_one_more_is_refused(
    relation_of: Callable[[int], ir.Relation],
) -> None:
    planned(relation_of(most(1)))
    with pytest.raises(PlanError, match=rf"{most(1) + 1} correlated subqueries .* at most {most(1)} are allowed"):
        planned(relation_of(most(1) + 1))


def test_the_columns_of_the_row_count() -> None:
    number = most(1_000)
    assert 1 < number < most(1)
    planned(wide(1_000, number))
    with pytest.raises(PlanError, match="a row of 1,000 columns"):
        planned(wide(1_000, number + 1))


def test_subqueries_of_any_and_all_count_more() -> None:
    relation = filtered(read("m", x=I64), eq(col(0), col(0, outer=1)))
    compared = subquery(ir.SubqueryKind.ALL, relation, col(0), comparison=ir.Comparison.LT)
    planned(filtered(some(most(1) - 2, read("s", x=I64)), compared))
    with pytest.raises(PlanError, match="correlated subqueries"):
        planned(filtered(some(most(1) - 1, read("s", x=I64)), compared))


def test_subqueries_that_read_no_row_around_them_are_not_counted() -> None:
    alone = subquery(ir.SubqueryKind.EXISTS, filtered(read("m", x=I64), eq(col(0), col(0))))
    planned(project(read("s", x=I64), *[alone] * (most(1) + 1)))
