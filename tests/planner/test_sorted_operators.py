"""The positions of merge joins and streaming aggregates in a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.planner import ir
from tidegate.planner.choose.sorted_operators import NESTED, use_sorted_operators
from tidegate.planner.ir import types as t
from tidegate.planner.ir.visit import relations
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from .build import (
    F64,
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    col,
    desc,
    eq,
    filtered,
    join,
    lit,
    measure,
    plan,
    project,
    read,
    sort,
    subquery,
    topn,
)

UP, DOWN = ir.Direction.ASC_NULLS_LAST, ir.Direction.DESC_NULLS_FIRST
INNER = ir.JoinType.INNER


def ordered(name: str, *order: tuple[int, ir.Direction]) -> ir.Read:
    columns = tuple(ir.ColumnOrder(column=column, direction=direction) for column, direction in order)
    return replace(read(name, k=I64, v=I64, s=TEXT), order=columns)


A, B = ordered("a", (0, UP), (1, UP)), ordered("b", (0, UP), (1, UP))


def chosen(relation: ir.Relation) -> ir.Relation:
    return use_sorted_operators(plan(relation)).root


def both(*terms: ir.Expression) -> ir.Call:
    return call("and", *terms)


def keys_of(relation: ir.Relation) -> list[tuple[int, int]]:
    assert isinstance(relation, ir.MergeJoin)
    return [(key.left, key.right) for key in relation.keys]


def test_an_equi_join_of_inputs_that_are_sorted_by_its_columns_is_a_merge_join() -> None:
    chosen_relation = chosen(join(A, B, INNER, both(eq(col(4), col(1)), eq(col(0), col(3)))))
    assert keys_of(chosen_relation) == [(0, 0), (1, 1)]
    assert isinstance(chosen_relation, ir.MergeJoin)
    assert chosen_relation.condition is None
    assert chosen_relation.why == ("declared for a", "declared for b")


def test_what_a_join_asks_besides_its_keys_is_a_condition_on_pairs() -> None:
    more = call("lt", col(1), col(4))
    chosen_relation = chosen(join(A, B, ir.JoinType.LEFT, both(eq(col(0), col(3)), more)))
    assert keys_of(chosen_relation) == [(0, 0)]
    assert isinstance(chosen_relation, ir.MergeJoin)
    assert chosen_relation.condition is more


def test_null_keys_match_where_the_join_says_so() -> None:
    chosen_relation = chosen(join(A, B, INNER, call("is_not_distinct_from", col(0), col(3))))
    assert isinstance(chosen_relation, ir.MergeJoin)
    assert [key.nulls_match for key in chosen_relation.keys] == [True]


@pytest.mark.parametrize(
    "relation",
    [
        join(A, ordered("b"), INNER, eq(col(0), col(3))),
        join(A, ordered("b", (0, DOWN)), INNER, eq(col(0), col(3))),
        join(A, B, INNER, eq(col(1), col(4))),
        join(A, B, INNER, call("lt", col(0), col(3))),
        join(A, B, INNER, None),
        join(A, B, INNER, both(eq(col(0), col(3)), eq(col(2, TEXT), col(5, TEXT)))),
        join(A, B, ir.JoinType.LEFT_MARK, eq(col(0), col(3))),
        replace(join(A, B, INNER, eq(col(0), col(3))), algorithm=ir.JoinAlgorithm.HASH),
        join(A, B, INNER, both(eq(col(0), col(3)), subquery(ir.SubqueryKind.EXISTS, B))),
    ],
    ids=[
        "right side unsorted",
        "other direction",
        "not the first column",
        "no equality",
        "no condition",
        "a pair by which they are not sorted",
        "mark",
        "the plan says hash",
        "asks a subquery",
    ],
)
def test_any_other_join_stays_as_it_is(relation: ir.Relation) -> None:
    assert chosen(relation) is relation


def test_a_merge_join_of_the_plan_needs_only_its_first_keys_sorted() -> None:
    condition = both(eq(col(2, TEXT), col(5, TEXT)), eq(col(0), col(3)))
    chosen_relation = chosen(replace(join(A, B, INNER, condition), algorithm=ir.JoinAlgorithm.MERGE))
    assert keys_of(chosen_relation) == [(0, 0)]
    assert isinstance(chosen_relation, ir.MergeJoin)
    assert chosen_relation.condition is condition.arguments[0]


def test_padded_text_is_no_key_of_a_merge_join() -> None:
    padded = t.FixedChar(length=3)
    left, right = (replace(ordered(name, (0, UP)), schema=(padded, I64, TEXT)) for name in ("a", "b"))
    relation = join(left, right, INNER, eq(col(0, padded), col(3, padded)))
    assert chosen(relation) is relation


def test_merge_joins_stand_on_merge_joins() -> None:
    first = join(A, B, INNER, eq(col(0), col(3)))
    chosen_relation = chosen(join(first, ordered("c", (0, UP)), INNER, eq(col(3), col(6))))
    assert keys_of(chosen_relation) == [(3, 0)]
    assert isinstance(chosen_relation, ir.MergeJoin)
    assert isinstance(chosen_relation.left, ir.MergeJoin)


@pytest.mark.parametrize(
    "below",
    [A, sort(read("a", k=I64, v=I64), asc(col(0)), desc(col(1))), topn(A, [asc(col(1)), asc(col(0))], 9)],
    ids=["declared", "sort", "top-n"],
)
def test_an_aggregate_by_the_columns_that_its_input_is_sorted_by_streams(below: ir.Relation) -> None:
    assert isinstance(chosen(aggregate(below, [col(1), col(0)], measure("count"))), ir.StreamingAggregate)


def test_a_streaming_aggregate_relies_on_no_more_than_its_keys_order() -> None:
    chosen_relation = chosen(aggregate(A, [col(0)], measure("sum", col(1))))
    assert isinstance(chosen_relation, ir.StreamingAggregate)
    assert [order.column for order in chosen_relation.order] == [0]


def test_columns_that_an_inner_join_made_equal_are_one_key() -> None:
    joined = join(A, B, INNER, eq(col(0), col(3)))
    assert isinstance(chosen(aggregate(joined, [col(3), col(0), col(1)])), ir.StreamingAggregate)


def test_rows_that_are_merely_clustered_are_enough_for_an_aggregate_but_have_no_order() -> None:
    clustered = ir.SortKey(expression=col(0), direction=ir.Direction.CLUSTERED)
    chosen_relation = chosen(aggregate(sort(A, clustered), [col(0)]))
    assert isinstance(chosen_relation, ir.StreamingAggregate)
    assert chosen_relation.order == ()
    assert isinstance(chosen(join(sort(A, clustered), sort(B, clustered), INNER, eq(col(0), col(3)))), ir.Join)


@pytest.mark.parametrize(
    "relation",
    [
        aggregate(A, [], measure("count")),
        aggregate(A, [col(1)]),
        aggregate(A, [col(0), col(2, TEXT)]),
        aggregate(A, [call("add", col(0), lit(1))]),
        aggregate(A, [col(0), col(1)], sets=[[0], [0, 1]]),
        aggregate(read("a", k=I64), [col(0)]),
    ],
    ids=["global", "not the first column", "one column more", "computed", "grouping sets", "unsorted"],
)
def test_any_other_aggregate_stays_as_it_is(relation: ir.Relation) -> None:
    assert chosen(relation) is relation


def test_what_reads_an_enclosing_query_stays_in_its_fragment() -> None:
    inner = filtered(A, eq(col(0), col(0, outer=1)))
    total = subquery(ir.SubqueryKind.SCALAR, aggregate(inner, [col(0)], measure("sum", col(1))))
    relation = project(read("b", k=F64), total)
    assert chosen(relation) is relation


def test_operators_are_chosen_in_subqueries_that_stand_alone() -> None:
    counts = subquery(ir.SubqueryKind.IN, project(aggregate(A, [col(0)]), col(0)), col(0))
    chosen_relation = chosen(filtered(B, counts))
    assert isinstance(chosen_relation, ir.Filter)
    assert isinstance(chosen_relation.condition, ir.Subquery)
    below = chosen_relation.condition.relation.input  # type: ignore[union-attr]
    assert isinstance(below, ir.StreamingAggregate)


def test_more_operators_than_stand_well_on_each_other_stay_in_fragments() -> None:
    relation: ir.Relation = A
    for _ in range(100):
        relation = aggregate(relation, [col(0), col(1)])
    streams = [isinstance(part, ir.StreamingAggregate) for part in relations(chosen(relation))]
    assert sum(streams) == NESTED


def test_columns_of_a_declared_order_are_read_although_nothing_else_wants_them() -> None:
    (source,) = prepare(plan(project(ordered("a", (1, DOWN)), col(2, TEXT))), TaskOptions()).sources
    assert [column.name for column in source.columns] == ["v", "s"]


def test_explain_says_which_orders_an_operator_relies_on_and_where_they_come_from() -> None:
    relation = aggregate(join(A, sort(read("b", k=I64), asc(col(0))), INNER, eq(col(0), col(3))), [col(0)])
    text = prepare(plan(relation), TaskOptions()).explain().text
    assert "read a (k, v), declared to be sorted by k ASC NULLS LAST, v ASC NULLS LAST" in text
    assert "merge join, inner, by columns 0 = 0 ASC NULLS LAST; left declared for a, right sorted at relations" in text
    assert "streaming aggregate, 1 keys: none; declared for a and sorted at relations" in text
