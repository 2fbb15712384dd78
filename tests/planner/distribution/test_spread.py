"""Exchanges of a plan that runs on several channels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tidegate.planner import ir
from tidegate.planner.physical.pipelines import (
    Feed,
    FileInput,
    FragmentNode,
    PhysicalPlan,
    Pipeline,
    SourceShape,
    Start,
    walk,
)
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ...on_channels import on_channels
from ..build import (
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    col,
    eq,
    fetch,
    filtered,
    join,
    lit,
    measure,
    plan,
    read,
    sort,
    window_call,
)
from ..build import window as window_over

LARGE, MIDDLE, SMALL = 1 << 23, 1 << 22, 1 << 12
A = read("a", k=I64, v=I64)
B = read("b", k=I64, w=I64)
SAME_KEY = eq(col(0), col(2))


def physical(
    root: ir.Relation,
    rows: Mapping[str, int],
    *,
    channels: int = 2,
    clustered: Mapping[str, Sequence[str]] | None = None,
    broadcast: Sequence[str] = (),
    threshold: float = 0.0,
    size: Mapping[str, int] | None = None,
) -> PhysicalPlan:
    options = TaskOptions(channels=channels, broadcast=tuple(broadcast), parallel_threshold_seconds=threshold)
    prepared = prepare(plan(root), options, ())
    keys = clustered or {}
    shape = {
        name: SourceShape(
            feed=Feed.FILES,
            size_class=count,
            clustered=frozenset(keys.get(name, ())),
            byte_class=(size or {}).get(name, 0),
        )
        for name, count in rows.items()
    }
    return prepared.physical(shape)


def moved(physical_plan: PhysicalPlan) -> list[tuple[str, tuple[int, ...]]]:
    """The exchanges: how they route, and by which columns."""
    return [
        (exchange.routing.value, exchange.keys) for pipeline in physical_plan.pipelines for exchange in pipeline.into
    ]


def files(pipeline: Pipeline) -> Iterator[FileInput]:
    for node in walk(pipeline.root):
        if isinstance(node, FragmentNode):
            yield from node.files


def reads(physical_plan: PhysicalPlan) -> dict[str, str]:
    """How each source is read: whole by every channel, in shares, or cut by a key."""
    return {
        file.source: "whole" if file.whole else "cut" if file.cut else "share"
        for pipeline in physical_plan.pipelines
        for file in files(pipeline)
    }


def last(physical_plan: PhysicalPlan) -> Pipeline:
    return physical_plan.pipelines[-1]


JOIN = join(A, B, ir.JoinType.INNER, SAME_KEY)


def test_one_channel_needs_no_exchange() -> None:
    physical_plan = physical(aggregate(JOIN, [col(0)], measure("count")), {"a": LARGE, "b": LARGE}, channels=1)
    assert len(physical_plan.pipelines) == 1
    assert moved(physical_plan) == []


@pytest.mark.parametrize("threshold", [TaskOptions().parallel_threshold_seconds, 0.01, 0.3])
def test_a_plan_stays_on_one_channel_where_several_would_save_less_than_the_threshold(threshold: float) -> None:
    root = aggregate(A, [], measure("count"))
    plans = [physical(root, {"a": 1 << power}, threshold=threshold) for power in range(16, 28)]
    assert all(spread_plan.saved is not None for spread_plan in plans)
    assert [bool(moved(spread_plan)) for spread_plan in plans] == [
        spread_plan.saved / 1e9 >= threshold for spread_plan in plans
    ]
    assert {bool(moved(spread_plan)) for spread_plan in plans} == {False, True}


def test_each_channel_reads_a_small_side_itself() -> None:
    physical_plan = physical(JOIN, {"a": LARGE, "b": SMALL})
    assert reads(physical_plan) == {"a": "share", "b": "whole"}
    assert moved(physical_plan) == []
    assert last(physical_plan).channels == 2


def test_sides_of_like_size_are_exchanged_by_the_hash_of_the_key() -> None:
    physical_plan = physical(JOIN, {"a": LARGE, "b": LARGE}, channels=8)
    assert moved(physical_plan) == [("hash", (0,)), ("hash", (0,))]


def test_a_filtered_side_is_computed_once_and_broadcast() -> None:
    few = filtered(B, eq(col(1), lit(7)))
    physical_plan = physical(join(A, few, ir.JoinType.INNER, SAME_KEY), {"a": LARGE, "b": MIDDLE}, channels=4)
    assert moved(physical_plan) == [("broadcast", ())]
    assert reads(physical_plan) == {"a": "share", "b": "share"}


def test_texts_are_searched_on_all_channels_though_their_rows_are_exchanged_for_it() -> None:
    texts = read("b", k=I64, w=I64, s=TEXT)
    exchanged = {}
    for name, condition in {"number": eq(col(1), lit(7)), "text": call("like", col(2, TEXT), lit("%a%"))}.items():
        few = join(A, filtered(texts, condition), ir.JoinType.LEFT, SAME_KEY)
        root = aggregate(few, [col(0)], measure("count", col(2)))
        exchanged[name] = moved(physical(root, {"a": 1 << 16, "b": 1 << 18}))
    assert exchanged == {"number": [], "text": [("gather", ())]}


@pytest.mark.parametrize("type_", [ir.JoinType.OUTER, ir.JoinType.RIGHT])
def test_a_side_whose_unmatched_rows_are_wanted_is_never_whole(type_: ir.JoinType) -> None:
    """With a left side that is too large for every channel to have all of it."""
    physical_plan = physical(join(A, B, type_, SAME_KEY), {"a": LARGE, "b": SMALL})
    assert ("hash", (0,)) in moved(physical_plan) or all(pipeline.channels == 1 for pipeline in physical_plan.pipelines)


def test_a_mark_join_is_not_split_by_its_key() -> None:
    """A null among the other side's keys decides for all rows."""
    physical_plan = physical(join(A, B, ir.JoinType.LEFT_MARK, SAME_KEY), {"a": LARGE, "b": LARGE})
    assert not any(routing == "hash" for routing, _ in moved(physical_plan))


def test_a_source_that_is_named_is_broadcast_whatever_its_size() -> None:
    physical_plan = physical(JOIN, {"a": LARGE, "b": LARGE}, channels=8, broadcast=["b"])
    assert reads(physical_plan) == {"a": "share", "b": "whole"}


def test_groups_are_made_in_halves_around_the_exchange() -> None:
    root = aggregate(A, [col(0)], measure("sum", col(1)), measure("avg", call("add", col(1), lit(1))))
    physical_plan = physical(root, {"a": LARGE})
    assert moved(physical_plan) == [("hash", (0,))]
    (first, _) = physical_plan.pipelines
    assert len(first.root.schema) == 4  # the key, a sum, and an average's sum and count
    assert last(physical_plan).channels == 2


def test_a_measure_that_must_see_all_rows_has_them_exchanged_before_it() -> None:
    physical_plan = physical(aggregate(A, [col(0)], measure("count", col(1), distinct=True)), {"a": LARGE}, channels=8)
    assert moved(physical_plan) == [("hash", (0,))]
    assert len(physical_plan.pipelines[0].root.schema) == 2


def test_groups_of_pairs_of_integers_are_not_expected_to_be_few() -> None:
    """Halves would hand on nearly as many rows as they read, and every channel would build a table of all of them."""
    pairs = aggregate(A, [col(0), col(1)], measure("count"))
    semi = join(B, pairs, ir.JoinType.LEFT_SEMI, SAME_KEY)
    physical_plan = physical(semi, {"a": LARGE, "b": MIDDLE})
    assert "broadcast" not in [routing for routing, _ in moved(physical_plan)]
    assert len(physical_plan.pipelines[0].root.schema) == 2


def test_what_is_hashed_already_is_not_exchanged_again() -> None:
    """The join's rows are at the channels of their keys, which are those of the groups."""
    outer = join(A, B, ir.JoinType.LEFT, SAME_KEY)
    physical_plan = physical(aggregate(outer, [col(0)], measure("sum", col(3))), {"a": LARGE, "b": LARGE}, channels=8)
    assert moved(physical_plan) == [("hash", (0,)), ("hash", (0,))]


def test_a_global_aggregate_is_gathered_as_a_row_of_each_channel() -> None:
    physical_plan = physical(aggregate(A, [], measure("count")), {"a": LARGE})
    assert moved(physical_plan) == [("gather", ())]
    assert last(physical_plan).channels == 1


def test_each_channel_sorts_and_the_sorted_rows_are_merged() -> None:
    physical_plan = physical(sort(A, asc(col(1)), asc(col(0))), {"a": LARGE})
    ((exchange,),) = [pipeline.into for pipeline in physical_plan.pipelines if pipeline.into]
    assert exchange.routing is ir.Routing.GATHER
    assert [key.column for key in exchange.order] == [1, 0]


def test_each_channel_hands_on_no_more_than_a_limit_may_need() -> None:
    physical_plan = physical(fetch(sort(A, asc(col(1))), 10, offset=5), {"a": LARGE})
    first = physical_plan.pipelines[0].root
    assert isinstance(first, FragmentNode)
    assert "LIMIT 15" in first.sql
    assert last(physical_plan).channels == 1


def test_windows_are_computed_where_their_partitions_are() -> None:
    calls = window_call("row_number", partitions=(col(0),), sorts=(asc(col(1)),))
    physical_plan = physical(window_over(A, calls), {"a": LARGE})
    assert moved(physical_plan) == [("hash", (0,))]


def test_sources_cut_at_one_key_meet_without_an_exchange() -> None:
    root = aggregate(JOIN, [col(0)], measure("sum", col(3)))
    physical_plan = physical(root, {"a": LARGE, "b": LARGE}, clustered={"a": ["k"], "b": ["k"]})
    assert reads(physical_plan) == {"a": "cut", "b": "cut"}
    assert moved(physical_plan) == []
    assert len({file.cut.ranges for file in files(last(physical_plan)) if file.cut}) == 1


def test_sources_clustered_by_other_columns_are_not_cut() -> None:
    physical_plan = physical(JOIN, {"a": LARGE, "b": LARGE}, clustered={"a": ["v"], "b": ["k"]})
    assert "cut" not in reads(physical_plan).values()


def test_row_by_row_plans_run_on_all_channels_as_pieces_come() -> None:
    physical_plan = physical(filtered(read("a", k=I64, s=TEXT), eq(col(0), lit(1))), {"a": LARGE})
    (pipeline,) = physical_plan.pipelines
    assert (pipeline.start, pipeline.channels, moved(physical_plan)) == (Start.PIECE, 2, [])


def test_a_few_rows_are_not_worth_an_exchange() -> None:
    physical_plan = physical(aggregate(JOIN, [col(0)], measure("count")), {"a": 1024, "b": 1024})
    assert [pipeline.channels for pipeline in physical_plan.pipelines] == [1]


def test_the_same_plan_and_sizes_are_spread_the_same() -> None:
    root = aggregate(JOIN, [col(0)], measure("sum", col(3)))
    one, other = (physical(root, {"a": LARGE, "b": LARGE}) for _ in range(2))
    assert [pipeline.root.sql for pipeline in one.pipelines if isinstance(pipeline.root, FragmentNode)] == [
        pipeline.root.sql for pipeline in other.pipelines if isinstance(pipeline.root, FragmentNode)
    ]
    assert moved(one) == moved(other)


def test_an_explanation_is_for_the_sizes_that_are_given() -> None:
    prepared = prepare(plan(JOIN), TaskOptions(**on_channels(2)), ())
    small, large = (prepared.explain({"b": rows}) for rows in (100, 10_000_000))
    assert "for 10,000,000 rows of a, 100 rows of b (" in small.text
    assert "reads a, a share; b, all rows" in small.text
    assert "pipeline 1 on one channel reads a, all rows; b, all rows" in large.text
    assert json.loads(small.json)["spread_for"] == {"a": 10_000_000, "b": 100}


def test_an_explanation_says_why_a_plan_stays_on_one_channel() -> None:
    prepared = prepare(plan(aggregate(A, [], measure("count"))), TaskOptions(channels=2), ())
    explanations = {rows: prepared.explain({"a": rows}) for rows in (MIDDLE // 4, LARGE)}
    saved = {rows: json.loads(explained.json)["spread_saves_ms"] for rows, explained in explanations.items()}
    assert 0 <= saved[MIDDLE // 4] < 75 <= saved[LARGE]
    reason = f"  one channel, as several are estimated to save {saved[MIDDLE // 4]:.0f} ms; 75 are worth it\n"
    assert reason in explanations[MIDDLE // 4].text
    assert "are worth it" not in explanations[LARGE].text


def test_an_explanation_says_what_moves_where() -> None:
    root = aggregate(A, [col(0)], measure("sum", col(1)))
    text = prepare(plan(root), TaskOptions(**on_channels(2)), ()).explain().text
    assert re.sub(r"  \[relations.*\]", "", text).endswith(
        "spread over channels, for sources of 10,000,000 rows each (the sizes of sealed splits decide):\n"
        "  pipeline 1 on 2 channels reads a, a share\n"
        "    partial aggregate, 1 keys: sum, blocks, ends the pipeline\n"
        "    read a (k, v)\n"
        "    exchange 0 to pipeline 2: hash of columns 0\n"
        "  pipeline 2 on 2 channels reads exchange 0\n"
        "    final aggregate, 1 keys: sum, blocks, ends the pipeline\n"
        "    exchange, hash\n"
        "    gives the result\n"
    )


def test_few_rows_of_many_bytes_are_worth_several_channels() -> None:
    """Not few rows of few bytes, whose columns are as many."""
    texts = read("t", k=TEXT, v=TEXT)
    root = aggregate(texts, [call("upper", col(0, TEXT))], measure("count"))
    few = 1 << 16
    for size, channels in ((few * 20, 1), (few * 10_000, 4)):
        planned = physical(root, {"t": few}, channels=4, threshold=0.075, size={"t": size})
        assert planned.pipelines[0].channels == channels


def test_a_side_of_few_rows_of_many_bytes_is_not_sent_to_every_channel() -> None:
    wide = read("b", k=I64, w=TEXT)
    root = join(A, wide, ir.JoinType.INNER, SAME_KEY)
    rows = {"a": LARGE, "b": SMALL}
    assert reads(physical(root, rows, size={"b": SMALL * 10}))["b"] == "whole"
    assert reads(physical(root, rows, size={"b": SMALL * 2_000_000}))["b"] == "share"
