"""The order that the planner knows of relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tidegate.planner import ir
from tidegate.planner.choose.sorted_operators import use_sorted_operators
from tidegate.planner.choose.sortedness import SortednessTable

from .build import (
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    col,
    combine,
    desc,
    eq,
    expand,
    fetch,
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
    window,
    window_call,
)

UP, DOWN = ir.Direction.ASC_NULLS_LAST, ir.Direction.DESC_NULLS_FIRST


def declared(name: str = "a", *columns: int, direction: ir.Direction = UP) -> ir.Read:
    order = tuple(ir.ColumnOrder(column=column, direction=direction) for column in columns or (0, 1))
    return replace(read(name, k=I64, v=I64, s=TEXT), order=order)


def known(relation: ir.Relation) -> list[set[int]]:
    return [set(sorted_by.columns) for sorted_by in SortednessTable().of(relation).by]


def test_the_order_declared_for_a_source_is_that_of_its_read() -> None:
    sortedness = SortednessTable().of(declared("a", 1, 0, direction=DOWN))
    assert [(set(sorted_by.columns), sorted_by.direction) for sorted_by in sortedness.by] == [({1}, DOWN), ({0}, DOWN)]
    assert sortedness.why == "declared for a"


@pytest.mark.parametrize("make", [sort, lambda input_, *keys: topn(input_, keys, 3)])
def test_sort_and_top_n_order_by_their_keys_down_to_the_first_that_is_computed(make: object) -> None:
    keys = [desc(col(2, TEXT)), asc(lit(7)), asc(col(0)), asc(call("add", col(0), col(1))), asc(col(1))]
    assert known(make(declared(), *keys)) == [{2}, {0}]  # type: ignore[operator]


def test_what_takes_rows_as_they_come_keeps_their_order() -> None:
    assert known(fetch(filtered(declared(), call("gt", col(1), lit(0))), 5)) == [{0}, {1}]


def test_a_projection_keeps_the_order_down_to_the_first_column_that_is_gone() -> None:
    assert known(project(declared(), col(1), col(0), col(0))) == [{1, 2}, {0}]
    assert known(project(declared(), col(0), lit(1))) == [{0}]
    assert known(project(declared(), call("add", col(0), lit(1)), col(1))) == []


def test_what_the_engine_may_turn_around_has_no_order() -> None:
    exists = subquery(ir.SubqueryKind.EXISTS, declared("b"))
    for relation in (
        filtered(declared(), exists),
        project(declared(), col(0), exists),
        aggregate(declared(), [col(0)]),
        join(declared(), declared("b"), ir.JoinType.INNER, eq(col(0), col(3))),
        combine(ir.SetOperation.UNION_ALL, declared(), declared("b")),
        window(declared(), window_call("row_number")),
        expand(declared(), [col(0)]),
    ):
        assert known(relation) == []


def merged(type_: ir.JoinType, keys: Sequence[int] = (0,)) -> ir.Relation:
    left, right = declared("a", *keys, *({0, 1} - set(keys))), declared("b", *keys)
    condition = eq(col(keys[0]), col(3 + keys[0]))
    root = use_sorted_operators(plan(join(left, right, type_, condition))).root
    assert isinstance(root, ir.MergeJoin)
    return root


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (ir.JoinType.INNER, [{0, 3}, {1}]),
        (ir.JoinType.LEFT, [{0}, {1}]),
        (ir.JoinType.LEFT_SINGLE, [{0}, {1}]),
        (ir.JoinType.LEFT_SEMI, [{0}, {1}]),
        (ir.JoinType.LEFT_ANTI, [{0}, {1}]),
        (ir.JoinType.RIGHT, [{3}]),
        (ir.JoinType.RIGHT_SINGLE, [{3}]),
        (ir.JoinType.RIGHT_SEMI, [{0}]),
        (ir.JoinType.RIGHT_ANTI, [{0}]),
        (ir.JoinType.OUTER, []),
    ],
)
def test_a_merge_join_orders_by_keys_that_no_row_lacks(type_: ir.JoinType, expected: list[set[int]]) -> None:
    assert known(merged(type_)) == expected


def test_a_streaming_aggregate_keeps_the_order_of_its_keys() -> None:
    root = use_sorted_operators(plan(aggregate(declared(), [col(1), col(0)], measure("count")))).root
    assert isinstance(root, ir.StreamingAggregate)
    assert known(root) == [{1}, {0}]
