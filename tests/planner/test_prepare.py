"""Sources, the columns they are read for, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import NOTHING, Feed, SourceShape
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions

from .build import (
    F64,
    I64,
    TEXT,
    aggregate,
    asc,
    col,
    combine,
    cross,
    eq,
    filtered,
    iterate,
    join,
    lit,
    measure,
    plan,
    project,
    read,
    reference,
    sort,
    subquery,
    table,
    window,
    window_call,
)
from .running import rows, run_plan

WIDE = read("w", a=TEXT, b=F64, c=I64, d=TEXT, e=I64)
OTHER = read("o", x=TEXT, y=I64, z=F64)
DATA = {
    "w": table(WIDE, [("p", 1.5, 1, "q", 10), ("r", None, 2, "s", 20), ("t", 2.5, None, None, 30)]),
    "o": table(OTHER, [("u", 1, 0.5), ("v", 2, None), ("v", 2, 7.0)]),
}


def prepared(root: ir.Relation) -> Prepared:
    return prepare(plan(root), TaskOptions())


def columns(root: ir.Relation) -> dict[str, list[str]]:
    return {source.name: [column.name for column in source.columns] for source in prepared(root).sources}


def test_a_source_is_read_for_the_columns_that_are_used() -> None:
    relation = project(filtered(WIDE, eq(col(2), lit(1))), col(4))
    assert columns(relation) == {"w": ["c", "e"]}
    assert rows(plan(relation), DATA) == [(10,)]


def test_counting_rows_reads_no_column() -> None:
    relation = aggregate(WIDE, [], measure("count"))
    assert columns(relation) == {"w": []}
    assert rows(plan(relation), DATA) == [(3,)]


def test_columns_are_pruned_through_every_kind_of_relation() -> None:
    numbered = window(
        WIDE, window_call("row_number", sorts=(asc(col(4)),)), window_call("rank", sorts=(asc(col(1, F64)),))
    )
    joined = join(sort(numbered, asc(col(4))), OTHER, ir.JoinType.LEFT, eq(col(2), col(8)))
    relation = project(cross(joined, project(OTHER, lit(1))), col(5), col(9, F64))
    assert columns(relation) == {"w": ["c", "e"], "o": ["y", "z"]}
    assert sorted(rows(plan(relation), DATA), key=str) == sorted(
        [(1, 0.5), (2, None), (2, 7.0), (3, None)] * 3, key=str
    )


def test_a_column_that_only_an_inner_query_reads_is_kept() -> None:
    inner = filtered(OTHER, eq(col(1), col(2, outer=1)))
    relation = project(filtered(WIDE, subquery(ir.SubqueryKind.EXISTS, inner)), col(0, TEXT))
    assert columns(relation) == {"w": ["a", "c"], "o": ["y"]}
    assert rows(plan(relation), DATA) == [("p",), ("r",)]


def test_an_outer_row_two_queries_out_is_found_after_pruning() -> None:
    deepest = filtered(OTHER, eq(col(1), col(2, outer=2)))
    middle = filtered(OTHER, subquery(ir.SubqueryKind.EXISTS, deepest))
    relation = project(filtered(WIDE, subquery(ir.SubqueryKind.EXISTS, middle)), col(4))
    assert columns(relation) == {"w": ["c", "e"], "o": ["y"]}
    assert rows(plan(relation), DATA) == [(10,), (20,)]


def test_grouping_keys_that_nobody_reads_still_make_groups() -> None:
    grouped = aggregate(OTHER, [col(0, TEXT), col(1)], measure("count"), measure("max", col(2, F64)))
    relation = project(grouped, col(3, F64))
    assert columns(relation) == {"o": ["x", "y", "z"]}
    assert sorted(rows(plan(relation), DATA)) == [(0.5,), (7.0,)]


def test_a_union_reads_the_same_columns_of_every_input() -> None:
    filtered_one = filtered(WIDE, eq(col(0, TEXT), lit("p")))
    relation = project(combine(ir.SetOperation.UNION_ALL, filtered_one, WIDE), col(4))
    assert columns(relation) == {"w": ["a", "e"]}
    assert rows(plan(relation), DATA) == [(10,), (10,), (20,), (30,)]


def test_a_distinct_union_reads_every_column() -> None:
    relation = project(combine(ir.SetOperation.UNION_DISTINCT, OTHER, OTHER), col(1))
    assert columns(relation) == {"o": ["x", "y", "z"]}
    assert sorted(rows(plan(relation), DATA)) == [(1,), (2,), (2,)]


def test_all_reads_of_a_table_are_one_source() -> None:
    strict = read("w", e=t.required(I64))
    relation = cross(project(WIDE, col(4)), strict)
    (source,) = prepared(relation).sources
    assert [(column.name, column.nullable) for column in source.columns] == [("e", False)]
    assert source.plan_paths == (WIDE.plan_path, strict.plan_path)


def test_reads_that_disagree_about_a_column_are_refused_with_both_places() -> None:
    other = read("w", a=I64)
    with pytest.raises(PlanError) as refused:
        prepared(cross(WIDE, other))
    (problem,) = refused.value.problems
    assert problem.reason == "SCHEMA_CONFLICT"
    assert problem.place == other.plan_path
    assert WIDE.plan_path in problem.message


def test_a_source_that_only_a_pruned_column_reads_stays_a_source_without_columns() -> None:
    counted = subquery(ir.SubqueryKind.SCALAR, aggregate(OTHER, [], measure("max", col(1))))
    relation = project(project(WIDE, col(4), counted), col(0))
    assert columns(relation) == {"w": ["e"], "o": []}
    assert rows(plan(relation), DATA) == [(10,), (20,), (30,)]


def test_a_loop_counts_the_rows_of_a_union_of_which_no_column_is_left() -> None:
    came_back = reference(1, I64)
    both = combine(ir.SetOperation.UNION_ALL, project(filtered(WIDE, eq(col(2), lit(1))), col(4)), came_back)
    loop = iterate(1, aggregate(both, [], measure("count")), max_rounds=3, at_limit=ir.AtLimit.RETURN)
    assert rows(plan(loop), DATA) == [(2,)]  # the row of `w`, and the count that came back


def test_a_read_and_a_result_may_have_no_columns() -> None:
    assert columns(project(read("w"), lit(1))) == {"w": []}
    assert prepared(project(WIDE)).schema.names == []


def test_files_that_the_plan_names_are_a_static_source() -> None:
    item = ir.FileItem(path="x.parquet", format="parquet")
    files = ir.LocalFiles(source="files", names=("k",), items=(item,), schema=(I64,), plan_path="here")
    (source,) = prepared(files).sources
    assert source.static
    assert source.items == (item,)


@pytest.mark.parametrize("feed", Feed)
def test_structs_come_out_under_the_plan_s_names_whatever_the_source_calls_them(feed: Feed) -> None:
    inner = t.Struct(fields=(F64,), names=("deep",))
    named = t.Struct(fields=(I64, t.List(element=inner)), names=("left", "right"))
    source = ir.Read(source="s", names=("p",), schema=(named,), plan_path="here")
    twice = combine(ir.SetOperation.UNION_ALL, source, source)
    data = pa.table({"p": [{"left": 1, "right": [{"deep": 0.5}]}, None]})
    result = run_plan(ir.Plan(root=twice, names=("out", "x", "y", "z")), {"s": data}, feed=feed)
    assert result.to_pylist() == [{"out": {"x": 1, "y": [{"z": 0.5}]}}, {"out": None}] * 2


@pytest.mark.parametrize("kind", [ir.SubqueryKind.SCALAR, ir.SubqueryKind.IN, ir.SubqueryKind.ANY, ir.SubqueryKind.ALL])
def test_a_subquery_hands_out_all_its_columns(kind: ir.SubqueryKind) -> None:
    inner = aggregate(OTHER, [], measure("min", col(1)))
    how = {"comparison": ir.Comparison.GE} if kind in (ir.SubqueryKind.ANY, ir.SubqueryKind.ALL) else {}
    needles = () if kind is ir.SubqueryKind.SCALAR else (col(2),)
    tested = subquery(kind, inner, *needles, **how)
    condition = eq(col(2), tested) if kind is ir.SubqueryKind.SCALAR else tested
    expected = [(10,), (20,)] if how else [(10,)]
    assert rows(plan(project(filtered(WIDE, condition), col(4))), DATA) == expected


def test_unique_is_false_for_two_equal_rows_without_nulls() -> None:
    same = filtered(project(OTHER, col(1)), eq(col(0), col(2, outer=1)))
    relation = project(filtered(WIDE, subquery(ir.SubqueryKind.UNIQUE, same)), col(4))
    assert rows(plan(relation), DATA) == [(10,), (30,)]


def test_the_pipelines_for_sources_without_rows_are_made_once() -> None:
    """Planning tries whether the plan has SQL with them, DuckDB tries their statements, and a task begins with them."""
    planned = prepared(filtered(WIDE, eq(col(2), lit(1))))
    assert planned.physical({"w": NOTHING}) is planned.physical({"w": NOTHING})
    assert planned.physical({"w": SourceShape(feed=Feed.FILES, size_class=1)}) is not planned.without_rows
