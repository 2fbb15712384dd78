"""An aggregate joined with a selective side is made for that side's keys alone, with the same rows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    "test",
    [
        call("like", col(1, TEXT), lit("te%")),
        call("like_escaped", col(1, TEXT), lit("te%"), lit("\\")),
        call("regexp_like", col(1, TEXT), lit("^te")),
        call("starts_with", col(1, TEXT), lit("te")),
        call("ends_with", col(1, TEXT), lit("ea")),
    ],
    ids=lambda test: test.function.name,
)
def test_a_side_that_is_picked_by_a_pattern_is_asked_in_every_spelling(test: ir.Call) -> None:
    picked = filtered(read("items", item=I64, name=TEXT), test)
    joined = join(picked, totals(), ir.JoinType.INNER, eq(col(0), col(3)))
    assert semi_joins(joined) == 1
    assert rows(plan(joined), DATA) == [(1, "tea", 12, 1)]


NUMBERS = st.one_of(st.none(), st.integers(0, 3))
SOLD = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 9)), max_size=20)
WANTED = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 9)), max_size=6)


@settings(max_examples=40, deadline=None)
@given(sold=SOLD, wanted=WANTED, least=st.integers(0, 20), is_semi=st.booleans(), is_left=st.booleans())
def test_the_groups_are_those_of_the_whole_table(
    sold: list[tuple[int | None, int | None, int]],
    wanted: list[tuple[int | None, int | None, int]],
    least: int,
    is_semi: bool,
    is_left: bool,
) -> None:
    """As in TPC-H's query 20: two keys, nulls among them, and a comparison with the sum."""
    sales, asked = read("sales", a=I64, b=I64, v=I64), read("asked", a=I64, b=I64, v=I64)
    sums = aggregate(sales, [col(0), col(1)], measure("sum", col(2)))
    side = filtered(asked, call("or", eq(col(2), lit(1)), call("gt", col(2), lit(3))))
    side = filtered(side, call("equal", call("add", col(0), col(1)), lit(3)))
    first = 3 if is_left else 0  # of the asking side's columns
    keys = [eq(col(first + at), col(at if is_left else 3 + at)) for at in (0, 1)]
    condition = call("and", *keys, call("gte", col(2 if is_left else 5), lit(least)))
    semi = ir.JoinType.RIGHT_SEMI if is_left else ir.JoinType.LEFT_SEMI
    inputs = (sums, side) if is_left else (side, sums)
    root = join(*inputs, semi if is_semi else ir.JoinType.INNER, condition)
    assert reduce_aggregates(plan(root)).shared != ()

    totals_of: Counter[tuple[int, int]] = Counter()
    for a, b, value in sold:
        if a is not None and b is not None:
            totals_of[a, b] += value
    expected: list[tuple[int | None, ...]] = []
    for a, b, value in wanted:
        if a is None or b is None or a + b != 3 or not (value == 1 or value > 3):
            continue
        total = totals_of[a, b]
        if any((a, b) == row[:2] for row in sold) and total >= least:
            other = () if is_semi else (a, b, total)
            expected.append((*other, a, b, value) if is_left else (a, b, value, *other))
    data = {"sales": table(sales, sold), "asked": table(asked, wanted)}
    assert Counter(rows(plan(root), data)) == Counter(expected)
