"""The columns whose long values a statement does not look at, as `source.column` with how it uses them."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import Feed, FragmentNode, SourceShape
from tidegate.planner.prepare import prepare
from tidegate.proto.values import Determinism, TaskOptions

from .build import (
    I64,
    TEXT,
    aggregate,
    asc,
    call,
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
    sort,
    subquery,
    topn,
    values,
    window,
    window_call,
)

A, B = read("a", k=I64, t=TEXT), read("b", m=I64, u=TEXT)
K, T, M, U = col(0), col(1, TEXT), col(2), col(3, TEXT)
SORTED = sort(A, asc(K))
ON_K, ON_T = eq(K, M), eq(T, U)
INNER, SEMI = ir.JoinType.INNER, ir.JoinType.LEFT_SEMI
UNION, UNION_ALL = ir.SetOperation.UNION_DISTINCT, ir.SetOperation.UNION_ALL


def long(root: ir.Relation, feed: Feed = Feed.STREAM, how: Determinism = Determinism.STRICT) -> dict[str, str]:
    shape = {name: SourceShape(feed=feed, size_class=100) for name in ("a", "b")}
    node = prepare(plan(root), TaskOptions(determinism=how), ()).physical(shape).pipelines[-1].root
    if not isinstance(node, FragmentNode):
        return {}
    uses_by_column = {}
    for stream in node.streams:
        for at, column in stream.long.items():
            uses = [name for name in ("compared", "ordered", "kept") if getattr(column, name)]
            uses_by_column[stream.node.schema.field(at).name] = " ".join(uses)
    uses_by_column |= {"out": " ".join(map(str, node.long))} if node.long else {}
    return uses_by_column


KEPT = {"t": "kept", "out": "1"}
ORDERED = {"t": "compared ordered kept", "out": "1"}


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (SORTED, KEPT),
        (sort(filtered(A, call("is_not_null", T)), asc(K)), KEPT),
        (sort(filtered(A, eq(T, lit("short"))), asc(K)), {"t": "compared kept", "out": "1"}),
        (project(SORTED, T, T, K), {"t": "kept", "out": "0 1"}),
        (window(A, window_call("row_number", partitions=(K,))), KEPT),
        (window(A, window_call("lag", T, partitions=(K,), sorts=(asc(K),))), {"t": "kept", "out": "1 2"}),
        (window(A, window_call("row_number", partitions=(T,))), {"t": "compared kept", "out": "1"}),
        (aggregate(A, [T], measure("count", K)), {"t": "compared kept", "out": "0"}),
        (join(A, B, INNER, ON_K), {"t": "kept", "u": "kept", "out": "1 3"}),
        (project(join(A, B, INNER, ON_T), K, M), {"t": "compared", "u": "compared"}),
        (join(A, B, SEMI, ON_K), {"t": "kept", "out": "1"}),
        (combine(UNION, A, B), {"t": "compared kept", "u": "compared kept", "out": "1"}),
        (sort(combine(UNION_ALL, A, B), asc(K)), {"t": "kept", "u": "kept", "out": "1"}),
        (topn(SORTED, [asc(K)], 3), KEPT),
        (sort(A, asc(T)), ORDERED),
        (sort(filtered(A, call("gt", T, lit("a"))), asc(K)), ORDERED),
        (aggregate(A, [K], measure("count", T)), {"t": ""}),
        (aggregate(A, [K], measure("any_value", T)), KEPT),
        (aggregate(A, [K], measure("max", T)), ORDERED),
        (aggregate(SORTED, [], measure("max", T)), ORDERED | {"out": "0"}),
        (window(A, window_call("row_number", sorts=(asc(T),))), ORDERED),
        (window(A, window_call("max", T, partitions=(K,))), ORDERED | {"out": "1 2"}),
        (join(A, B, SEMI, call("lt", T, U)), {"t": "compared ordered kept", "u": "compared ordered kept", "out": "1"}),
    ],
)
def test_a_column_that_is_passed_on_or_compared_where_rows_are_held_back(
    root: ir.Relation, expected: dict[str, str]
) -> None:
    assert long(root) == expected


@pytest.mark.parametrize(
    "root",
    [
        sort(filtered(A, call("gt", T, lit("x" * 5_000))), asc(K)),
        sort(filtered(A, eq(T, lit("x" * 5_000))), asc(K)),
        project(SORTED, call("upper", T)),
        sort(SORTED, asc(call("upper", T))),
        aggregate(A, [K], measure("max", call("upper", T))),
        combine(UNION, A, project(B, col(0), call("upper", col(1, TEXT)))),
        combine(UNION, A, values((I64, TEXT), (1, "a"))),
        join(A, project(B, col(0), call("upper", col(1, TEXT))), SEMI, ON_T),
        sort(filtered(A, subquery(ir.SubqueryKind.IN, project(B, col(1, TEXT)), T)), asc(K)),
        filtered(A, eq(T, T)),
        cross(A, B),
        iterate(0, SORTED),
    ],
)
def test_a_column_that_is_looked_at_or_whose_rows_are_not_held_back(root: ir.Relation) -> None:
    assert long(root) == {}


TEXTS, NUMBERS = t.List(element=TEXT), t.List(element=I64)


@pytest.mark.parametrize(("type_", "expected"), [(TEXTS, KEPT), (t.List(element=TEXTS), KEPT), (NUMBERS, {})], ids=str)
def test_texts_inside_of_others_are_long_values_too(type_: t.Type, expected: dict[str, str]) -> None:
    assert long(sort(read("a", k=I64, t=type_), asc(K))) == expected


def test_columns_of_files_that_duckdb_reads_itself_are_none() -> None:
    assert long(SORTED, Feed.FILES) == {}


def test_a_relaxed_task_gives_rows_of_joins_as_they_come() -> None:
    assert long(join(A, B, INNER, ON_K), how=Determinism.RELAXED) == {}
    assert long(sort(join(A, B, INNER, ON_K), asc(K)), how=Determinism.RELAXED) == {
        "t": "kept",
        "u": "kept",
        "out": "1 3",
    }
