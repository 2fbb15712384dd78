"""Reads of which DuckDB learns the number of rows: those that it would else take to have lost most of them."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.physical.pipelines import Feed, FragmentNode, SourceShape
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from .build import I64, aggregate, call, col, eq, filtered, join, lit, measure, plan, project, read

A, B = read("a", k=I64, v=I64), read("b", k=I64, w=I64)
ONE_COLUMN, TWO_COLUMNS = eq(col(1), lit(7)), call("gt", col(0), col(1))


def expected_whole(root: ir.Relation) -> set[str]:
    shape = {name: SourceShape(feed=Feed.FILES, size_class=100) for name in ("a", "b")}
    (pipeline,) = prepare(plan(root), TaskOptions(), ()).physical(shape).pipelines
    assert isinstance(pipeline.root, FragmentNode)
    return {file.source for file in pipeline.root.files if file.full_cardinality}


def joined(left: ir.Relation) -> ir.Relation:
    return join(left, B, ir.JoinType.INNER, eq(col(0), col(2)))


def test_sides_of_a_join_are_weighed() -> None:
    assert expected_whole(joined(A)) == {"a", "b"}


def test_a_read_with_a_condition_on_a_column_is_not() -> None:
    assert expected_whole(joined(filtered(A, ONE_COLUMN))) == {"b"}
    assert expected_whole(joined(filtered(project(A, col(1), col(0)), ONE_COLUMN))) == {"b"}


def test_a_condition_between_columns_is_none_while_scanning() -> None:
    assert expected_whole(joined(filtered(A, TWO_COLUMNS))) == {"a", "b"}


def test_a_source_is_weighed_when_one_of_its_reads_is() -> None:
    again = read("a", k=I64, v=I64)
    assert expected_whole(join(filtered(A, ONE_COLUMN), again, ir.JoinType.INNER, eq(col(0), col(2)))) == {"a"}


@pytest.mark.parametrize("root", [filtered(A, TWO_COLUMNS), aggregate(A, [col(0)], measure("count"))])
def test_without_a_join_there_is_nothing_to_weigh(root: ir.Relation) -> None:
    assert expected_whole(root) == set()
