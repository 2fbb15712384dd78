"""Operators that rely on the order of their inputs, on several channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from tidegate.operators.core.column import Slices
from tidegate.planner import ir
from tidegate.planner.distribution import alternatives as ways
from tidegate.planner.physical.pipelines import (
    Feed,
    PhysicalPlan,
    ReceiveNode,
    ScanNode,
    SelectNode,
    SourceShape,
    walk,
)
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ...on_channels import on_channels
from ..build import I64, aggregate, asc, col, desc, eq, filtered, join, lit, measure, plan, read, sort, topn

LARGE, SMALL = 1 << 23, 1 << 12
UP, DOWN = ir.Direction.ASC_NULLS_LAST, ir.Direction.DESC_NULLS_FIRST
ANY_A, ANY_B = read("a", k=I64, v=I64), read("b", k=I64, w=I64)


def declared(relation: ir.Read, direction: ir.Direction = UP) -> ir.Read:
    return replace(relation, order=(ir.ColumnOrder(column=0, direction=direction),))


A, B = declared(ANY_A), declared(ANY_B)


def joined(left: ir.Relation, right: ir.Relation, type_: ir.JoinType = ir.JoinType.INNER) -> ir.Relation:
    return join(left, right, type_, eq(col(0), col(2)))


def summed(relation: ir.Relation) -> ir.Relation:
    return aggregate(relation, [col(0)], measure("sum", col(1)))


def physical(
    root: ir.Relation,
    *,
    rows: int = LARGE,
    clustered: Sequence[str] = ("k",),
    rising: Sequence[str] = ("k",),
    inline: Mapping[str, int] = MappingProxyType({}),
    broadcast: Sequence[str] = (),
) -> PhysicalPlan:
    """`inline` are sources that come with the calls, of so many rows."""
    prepared = prepare(plan(root), TaskOptions(**on_channels(2), broadcast=tuple(broadcast)), ())
    shape = SourceShape(feed=Feed.FILES, size_class=rows, clustered=frozenset(clustered), rising=frozenset(rising))
    few = {name: SourceShape(feed=Feed.STREAM, size_class=size) for name, size in inline.items()}
    return prepared.physical({source.name: few.get(source.name, shape) for source in prepared.sources})


def channels(physical_plan: PhysicalPlan) -> list[int]:
    return [pipeline.channels for pipeline in physical_plan.pipelines]


def moved(physical_plan: PhysicalPlan) -> list[tuple[str, tuple[int, ...], list[int]]]:
    """The exchanges: how they route, by which columns, and what they merge by."""
    exchanges = [exchange for pipeline in physical_plan.pipelines for exchange in pipeline.into]
    return [(exchange.routing.value, exchange.keys, [key.column for key in exchange.order]) for exchange in exchanges]


def reads(physical_plan: PhysicalPlan) -> dict[str, str]:
    nodes = [node for pipeline in physical_plan.pipelines for node in walk(pipeline.root) if isinstance(node, ScanNode)]
    return {node.source: "whole" if node.whole else "range" if node.cut else "share" for node in nodes}


def cuts(physical_plan: PhysicalPlan) -> set[tuple[str, int, Slices | None] | None]:
    nodes = [node for pipeline in physical_plan.pipelines for node in walk(pipeline.root)]
    return {node.cut for node in nodes if isinstance(node, ScanNode)}


@pytest.mark.parametrize(
    "relation",
    [summed(A), joined(A, B), summed(joined(A, B)), joined(A, B, ir.JoinType.OUTER)],
    ids=["aggregate", "join", "join and aggregate", "outer join"],
)
def test_sorted_files_are_read_in_ranges_of_their_first_column_without_an_exchange(relation: ir.Relation) -> None:
    physical_plan = physical(relation)
    assert channels(physical_plan) == [2]
    assert moved(physical_plan) == []
    assert cuts(physical_plan) == {("k", 0, None)}


def test_rows_merged_at_the_root_need_no_statement_above() -> None:
    *_, last = physical(sort(ANY_A, asc(col(0)))).pipelines
    assert [type(node) for node in walk(last.root)] == [SelectNode, ReceiveNode]


@pytest.mark.parametrize(
    ("relation", "rising"),
    [(summed(A), ()), (summed(declared(ANY_A, DOWN)), ("k",))],
    ids=["ranges that do not rise", "descending"],
)
def test_any_other_sorted_source_is_read_on_one_channel(relation: ir.Relation, rising: Sequence[str]) -> None:
    physical_plan = physical(relation, rising=rising)
    assert channels(physical_plan) == [1]
    assert cuts(physical_plan) == {None}


def test_a_few_sorted_rows_stay_on_one_channel() -> None:
    few = joined(sort(ANY_A, asc(col(0))), sort(ANY_B, asc(col(0))))
    assert channels(physical(few, rows=SMALL, clustered=())) == [1]


@pytest.mark.parametrize("direction", [asc, desc])
def test_what_channels_sort_is_merged_on_its_way_to_the_channel_of_its_key(direction: type) -> None:
    sides = [sort(side, direction(col(0)), asc(col(1))) for side in (ANY_A, ANY_B)]
    physical_plan = physical(summed(joined(*sides)), clustered=())
    assert channels(physical_plan) == [2, 2, 2, 1]
    assert moved(physical_plan) == [("hash", (0,), [0, 1]), ("hash", (0,), [0, 1]), ("gather", (), [0])]


def test_rows_that_are_hashed_already_are_not_exchanged_again() -> None:
    first = joined(sort(ANY_A, asc(col(0))), sort(ANY_B, asc(col(0))))
    physical_plan = physical(aggregate(first, [col(2)], measure("sum", col(1))), clustered=())
    assert [routing for routing, _, _ in moved(physical_plan)] == ["hash", "hash", "gather"]


def test_rows_of_one_channel_that_are_merely_clustered_stay_on_it() -> None:
    clustered = sort(ANY_A, ir.SortKey(expression=col(0), direction=ir.Direction.CLUSTERED))
    assert "hash" not in {routing for routing, _, _ in moved(physical(summed(clustered), clustered=()))}


def test_top_n_of_all_rows_is_sorted_on_one_channel() -> None:
    physical_plan = physical(summed(topn(ANY_A, [asc(col(0))], 9)), clustered=())
    assert channels(physical_plan) == [2, 1]
    assert moved(physical_plan) == [("gather", (), [])]


@pytest.mark.parametrize(
    ("type_", "small"),
    [
        (ir.JoinType.INNER, "b"),
        (ir.JoinType.LEFT, "b"),
        (ir.JoinType.LEFT_ANTI, "b"),
        (ir.JoinType.INNER, "a"),
        (ir.JoinType.RIGHT, "a"),
    ],
)
def test_a_small_side_is_whole_beside_each_range_of_the_other(type_: ir.JoinType, small: str) -> None:
    physical_plan = physical(joined(A, B, type_), inline={small: SMALL})
    (large,) = {"a", "b"} - {small}
    assert (channels(physical_plan), moved(physical_plan)) == ([2], [])
    assert reads(physical_plan) == {small: "whole", large: "range"}


@pytest.mark.parametrize("type_", [ir.JoinType.RIGHT, ir.JoinType.OUTER])
def test_a_side_whose_unmatched_rows_are_wanted_is_never_whole_in_several_channels(type_: ir.JoinType) -> None:
    assert channels(physical(joined(A, B, type_), inline={"b": SMALL})) == [1]


def test_a_sorted_side_that_is_named_is_whole_whatever_its_size() -> None:
    assert channels(physical(joined(A, B), inline={"b": LARGE})) == [1]
    assert reads(physical(joined(A, B), inline={"b": LARGE}, broadcast=["b"])) == {"a": "range", "b": "whole"}
    assert reads(physical(joined(A, B), broadcast=["b"])) == {"a": "range", "b": "whole"}


@pytest.mark.parametrize("above", [joined, lambda a, b: summed(joined(a, b))], ids=["join", "aggregate of a join"])
def test_what_a_merge_join_may_stop_is_never_read_through_an_exchange(
    above: Callable[[ir.Relation, ir.Relation], ir.Relation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where rows could be moved at no cost; those that a sort has read to their end may."""
    for cost in ("SEND", "COLUMN", "PIPELINE"):
        monkeypatch.setattr(ways, cost, 0.0)
    physical_plan = physical(above(filtered(A, eq(col(1), lit(7))), sort(ANY_B, asc(col(0)))))
    (reader,) = [pipeline for pipeline in physical_plan.pipelines if "a" in pipeline.sources]
    assert "MergeJoinNode" in {type(node).__name__ for node in walk(reader.root)}
