"""Pipelines, what starts when, what is kept, how inputs are announced."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from tidegate.planner import ir
from tidegate.planner.cut.fragments import is_blocking
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import (
    Feed,
    FragmentNode,
    KeptNode,
    PhysicalPlan,
    ScanNode,
    Start,
)
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from .build import (
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    col,
    combine,
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
    shared,
    sort,
    subquery,
    table,
    topn,
    values,
)
from .running import rows, shape_of

A = read("a", k=I64, s=TEXT)
B = read("b", k=I64, s=TEXT)
DATA = {"a": table(A, [(1, "x"), (2, "y"), (3, "z")]), "b": table(B, [(2, "p"), (3, "q"), (4, "r")])}
ALL = ir.SetOperation.UNION_ALL


def physical(
    root: ir.Relation, *common: ir.Relation, static: Sequence[str] = (), feed: Feed = Feed.FILES
) -> PhysicalPlan:
    prepared = prepare(plan(root, *common), TaskOptions(), static)
    return prepared.physical(shape_of(prepared, DATA, feed))


def starts(physical_plan: PhysicalPlan) -> list[tuple[Start, tuple[str, ...]]]:
    return [(pipeline.start, pipeline.sources) for pipeline in physical_plan.pipelines]


def root(physical_plan: PhysicalPlan) -> FragmentNode:
    (pipeline,) = physical_plan.pipelines
    assert isinstance(pipeline.root, FragmentNode)
    return pipeline.root


def positive(relation: ir.Relation) -> ir.Relation:
    return filtered(relation, call("gt", col(0), lit(0)))


def test_a_row_wise_plan_starts_with_the_first_piece() -> None:
    relation = expand(project(positive(A), col(0)), [col(0)], [lit(None, I64)])
    assert starts(physical(relation)) == [(Start.PIECE, ("a",))]
    assert root(physical(relation)).row_wise


def test_a_union_of_row_wise_plans_is_a_pipeline_per_source_in_plan_order() -> None:
    relation = positive(combine(ALL, B, positive(combine(ALL, A, B))))
    assert starts(physical(relation)) == [(Start.PIECE, ("b",)), (Start.PIECE, ("a",)), (Start.PIECE, ("b",))]
    assert [row[0] for row in rows(plan(relation), DATA)] == [2, 3, 4, 1, 2, 3, 2, 3, 4]


def test_a_virtual_table_in_a_union_is_a_pipeline_that_runs_once() -> None:
    relation = combine(ALL, values([I64, TEXT], [9, "v"]), A)
    assert starts(physical(relation)) == [(Start.SEAL, ()), (Start.PIECE, ("a",))]
    assert rows(plan(relation), DATA)[0] == (9, "v")


def test_what_depends_on_more_than_one_row_waits_for_the_seal() -> None:
    exists = subquery(ir.SubqueryKind.EXISTS, B)
    for relation in (
        fetch(A, 1),
        sort(A, asc(col(0))),
        topn(A, [asc(col(0))], 1),
        aggregate(A, [col(0)]),
        join(A, B, ir.JoinType.INNER, eq(col(0), col(2))),
        combine(ir.SetOperation.UNION_DISTINCT, A, B),
        filtered(A, exists),
    ):
        assert [pipeline.start for pipeline in physical(relation).pipelines] == [Start.SEAL]


def test_a_fragment_is_blocking_when_it_consumes_all_before_its_first_row() -> None:
    assert is_blocking(project(fetch(sort(A, asc(col(0))), 2), col(0)), ())
    assert is_blocking(aggregate(A, [col(0)]), ())
    assert not is_blocking(fetch(positive(A), 2), ())
    assert not is_blocking(join(A, B, ir.JoinType.INNER, eq(col(0), col(2))), ())


def test_what_static_sources_feed_alone_is_kept_and_the_rest_reads_it() -> None:
    small = aggregate(positive(B), [col(0)], measure("count"))
    physical_plan = physical(join(A, small, ir.JoinType.INNER, eq(col(0), col(2))), static=["b"])
    (kept,) = physical_plan.kept
    assert kept.sources == ("b",)
    assert starts(physical_plan) == [(Start.SEAL, ("a",))]
    (stream,) = root(physical_plan).streams
    assert isinstance(stream.node, KeptNode)
    assert stream.node.name == kept.name


def test_a_bare_static_read_is_not_kept() -> None:
    relation = join(A, project(B, col(1, TEXT), col(0)), ir.JoinType.INNER, eq(col(0), col(3)))
    physical_plan = physical(relation, static=["b"])
    assert not physical_plan.kept
    assert [file.source for file in root(physical_plan).files] == ["a", "b"]


def test_kept_rows_in_a_union_are_a_pipeline_of_their_own() -> None:
    relation = combine(ALL, positive(B), A)
    assert starts(physical(relation, static=["b"])) == [(Start.SEAL, ()), (Start.PIECE, ("a",))]
    assert [row[0] for row in rows(plan(relation), DATA, static=["b"])] == [2, 3, 4, 1, 2, 3]


def test_a_plan_of_static_sources_alone_is_one_pipeline_that_keeps_nothing() -> None:
    physical_plan = physical(combine(ALL, positive(B), A), static=["a", "b"])
    assert not physical_plan.kept
    assert starts(physical_plan) == [(Start.SEAL, ("b", "a"))]


def test_what_reads_the_clock_is_not_kept() -> None:
    today = ir.ContextVariable(variable=ir.Clock.DATE, type=t.Date(nullable=False))
    dated = aggregate(project(B, today), [col(0, today.type)])
    relation = join(A, dated, ir.JoinType.LEFT, None)
    assert not physical(relation, static=["b"]).kept


def test_clock_values_come_from_a_relation_of_one_row() -> None:
    today = ir.ContextVariable(variable=ir.Clock.DATE, type=t.Date(nullable=False))
    zone = ir.ContextVariable(variable=ir.Clock.TIMEZONE, type=TEXT)
    relation = project(A, today, zone, today)
    assert root(physical(relation)).context == (ir.Clock.DATE, ir.Clock.TIMEZONE)
    assert starts(physical(relation)) == [(Start.PIECE, ("a",))]
    day = dt.date(2024, 2, 29)
    assert rows(plan(relation), DATA) == [(day, "UTC", day)] * 3


def test_a_stream_is_replayed_only_when_the_statement_reads_it_twice() -> None:
    twice = join(A, A, ir.JoinType.INNER, eq(col(0), col(2)))
    once = join(A, B, ir.JoinType.INNER, eq(col(0), col(2)))
    assert [stream.replayed for stream in root(physical(twice, feed=Feed.STREAM)).streams] == [True]
    assert [stream.replayed for stream in root(physical(once, feed=Feed.STREAM)).streams] == [False, False]
    assert sorted(rows(plan(twice), DATA, feed=Feed.STREAM)) == [(1, "x", 1, "x"), (2, "y", 2, "y"), (3, "z", 3, "z")]


def test_a_shared_subtree_is_computed_once_for_all_its_uses() -> None:
    common = aggregate(A, [col(0)], measure("count"))
    relation = join(shared(0, common), shared(0, common), ir.JoinType.INNER, eq(col(0), col(2)))
    fragment = root(physical(relation, common, feed=Feed.STREAM))
    assert [stream.replayed for stream in fragment.streams] == [False]
    assert fragment.sql.count("MATERIALIZED") == 1
    assert sorted(rows(plan(relation, common), DATA, feed=Feed.STREAM)) == [(1, 1, 1, 1), (2, 1, 2, 1), (3, 1, 3, 1)]


def test_a_static_shared_subtree_is_kept_once_for_all_its_uses() -> None:
    common = aggregate(B, [col(0)])
    both = join(shared(0, common), A, ir.JoinType.INNER, eq(col(0), col(1)))
    relation = join(both, shared(0, common), ir.JoinType.INNER, eq(col(0), col(3)))
    physical_plan = physical(relation, common, static=["b"])
    assert len(physical_plan.kept) == 1
    assert sorted(rows(plan(relation, common), DATA, static=["b"])) == [(2, 2, "y", 2), (3, 3, "z", 3)]


def test_no_text_of_a_plan_is_in_sql_unquoted() -> None:
    hostile = read('a"; DROP TABLE x; --', **{'k"; SELECT 1 --': I64})
    relation = filtered(hostile, eq(call("concat", lit("'; --"), lit("it's")), lit("x")))
    prepared = prepare(plan(project(relation, col(0))), TaskOptions())
    name = prepared.sources[0].name
    sql = root(prepared.physical(shape_of(prepared, {name: DATA["a"]}))).sql
    assert "DROP" not in sql
    assert "SELECT 1" not in sql
    assert "'''; --'" in sql


def test_a_filter_below_long_texts_reads_a_file_itself_and_hands_its_rows_on() -> None:
    [stream] = root(physical(project(positive(A), call("repeat", col(1, TEXT), col(0))))).streams
    assert isinstance(stream.node, FragmentNode)
    assert [file.source for file in stream.node.files] == ["a"]
    assert "repeat" not in stream.node.sql
    [stream] = root(physical(project(A, call("repeat", col(1, TEXT), col(0))))).streams
    assert isinstance(stream.node, ScanNode)
