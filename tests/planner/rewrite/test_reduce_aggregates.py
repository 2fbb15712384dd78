"""An aggregate joined with a selective side is made for that side's keys alone, with the same rows."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir.visit import relations
from tidegate.planner.rewrite.reduce_aggregates import reduce_aggregates

from ..build import (
    I64,
    TEXT,
    aggregate,
    call,
    col,
    eq,
    filtered,
    join,
    lit,
    measure,
    plan,
    project,
    read,
    subquery,
    table,
)
from ..running import rows

SALES = read("sales", item=I64, amount=I64)
ITEMS = read("items", item=I64, name=TEXT)
DATA = {
    "sales": table(SALES, [(1, 5), (1, 7), (2, 1), (3, 4), (None, 9)]),
    "items": table(ITEMS, [(1, "tea"), (2, "cup"), (4, "tea"), (None, "tea")]),
}


def totals() -> ir.Relation:
    """Sums by item, the sum first: the key is found through the projection."""
    summed = aggregate(read("sales", item=I64, amount=I64), [col(0)], measure("sum", col(1)))
    return project(summed, col(1), col(0))


def teas() -> ir.Relation:
    return filtered(read("items", item=I64, name=TEXT), eq(col(1, TEXT), lit("tea")))


def semi_joins(root: ir.Relation) -> int:
    reduced = reduce_aggregates(plan(root))
    every = [relation for top in (reduced.root, *reduced.shared) for relation in relations(top)]
    return sum(isinstance(visited, ir.Join) and visited.type is ir.JoinType.LEFT_SEMI for visited in every)


def test_the_aggregate_is_reduced_to_the_keys_that_are_asked_for() -> None:
    joined = join(teas(), totals(), ir.JoinType.INNER, eq(col(0), col(3)))
    reduced = reduce_aggregates(plan(joined))
    assert len(reduced.shared) == 1
    assert semi_joins(joined) == 1


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (ir.JoinType.INNER, [(1, "tea", 12, 1)]),
        (ir.JoinType.LEFT_SEMI, [(1, "tea")]),
    ],
)
def test_the_rows_are_the_same(type_: ir.JoinType, expected: list[tuple[object, ...]]) -> None:
    joined = join(teas(), totals(), type_, eq(col(0), col(3)))
    assert rows(plan(joined), DATA) == expected


def test_the_aggregate_may_be_on_the_left() -> None:
    joined = join(totals(), teas(), ir.JoinType.INNER, eq(col(1), col(2)))
    assert reduce_aggregates(plan(joined)).shared != ()
    assert rows(plan(joined), DATA) == [(12, 1, 1, "tea")]


def test_a_residual_condition_stays_at_the_join() -> None:
    condition = call("and", eq(col(0), col(3)), call("gt", col(2), lit(100)))
    assert rows(plan(join(teas(), totals(), ir.JoinType.INNER, condition)), DATA) == []


def test_several_keys_are_asked_for_together() -> None:
    pairs = aggregate(read("sales", item=I64, amount=I64), [col(0), col(1)], measure("count", col(0)))
    sevens = filtered(read("wanted", item=I64, amount=I64), eq(col(1), lit(7)))
    joined = join(sevens, pairs, ir.JoinType.INNER, call("and", eq(col(0), col(2)), eq(col(1), col(3))))
    wanted = table(read("wanted", item=I64, amount=I64), [(1, 7), (2, 7), (1, 5)])
    assert semi_joins(joined) == 1
    assert rows(plan(joined), {**DATA, "wanted": wanted}) == [(1, 7, 1, 7, 1)]


@pytest.mark.parametrize("type_", [ir.JoinType.LEFT, ir.JoinType.OUTER, ir.JoinType.LEFT_ANTI, ir.JoinType.RIGHT])
def test_other_joins_keep_every_group(type_: ir.JoinType) -> None:
    assert reduce_aggregates(plan(join(teas(), totals(), type_, eq(col(0), col(3))))).shared == ()


def test_a_side_that_picks_nothing_is_not_worth_it() -> None:
    every = read("items", item=I64, name=TEXT)
    assert reduce_aggregates(plan(join(every, totals(), ir.JoinType.INNER, eq(col(0), col(3))))).shared == ()


def test_a_join_on_the_measure_reduces_nothing() -> None:
    assert reduce_aggregates(plan(join(teas(), totals(), ir.JoinType.INNER, eq(col(0), col(2))))).shared == ()


def test_grouping_sets_keep_every_group() -> None:
    sets = aggregate(read("sales", item=I64, amount=I64), [col(0)], measure("sum", col(1)), sets=[[0], []])
    assert reduce_aggregates(plan(join(teas(), sets, ir.JoinType.INNER, eq(col(0), col(2))))).shared == ()


def test_a_side_that_reads_an_enclosing_row_stays_where_it_is() -> None:
    asking = filtered(teas(), eq(col(0), col(0, outer=1)))
    inner = join(asking, totals(), ir.JoinType.INNER, eq(col(0), col(3)))
    correlated = filtered(read("items", item=I64, name=TEXT), subquery(ir.SubqueryKind.EXISTS, inner))
    assert reduce_aggregates(plan(correlated)).shared == ()
