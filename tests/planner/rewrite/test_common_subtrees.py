"""An aggregate written out twice is computed once, and only where that is the same thing."""

from __future__ import annotations

from tidegate.planner import ir
from tidegate.planner.ir.visit import relations
from tidegate.planner.rewrite.common_subtrees import share_common_subtrees

from ..build import (
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
    join,
    lit,
    measure,
    plan,
    project,
    read,
    subquery,
    table,
    topn,
)
from ..build import shared as use
from ..running import rows

ROWS = [("a", 1), ("b", 5), ("a", 4), ("c", 5)]


def sums(minimum: int = 0) -> ir.Aggregate:
    source = read("t", k=TEXT, v=I64)
    return aggregate(filtered(source, call("gt", col(1), lit(minimum))), [col(0, TEXT)], measure("sum", col(1)))


def best() -> ir.Plan:
    """The groups whose sum is the largest: the sums stand twice."""
    largest = aggregate(project(sums(), col(1)), [], measure("max", col(0)))
    return plan(filtered(sums(), eq(col(1), subquery(ir.SubqueryKind.SCALAR, largest))))


def uses(relation: ir.Relation) -> list[int]:
    return [part.ordinal for part in relations(relation) if isinstance(part, ir.Shared)]


def test_an_aggregate_that_stands_twice_is_shared() -> None:
    shared = share_common_subtrees(best())
    assert len(shared.shared) == 1
    assert uses(shared.root) == [0, 0]


def test_sharing_keeps_the_rows() -> None:
    result_rows = rows(best(), {"t": table(read("t", k=TEXT, v=I64), ROWS)})
    assert sorted(result_rows, key=str) == [("a", 5), ("b", 5), ("c", 5)]


def test_no_more_are_shared_than_a_statement_can_have() -> None:
    twice = [aggregate for at in range(ir.MOST_SHARED + 5) for aggregate in (sums(at), sums(at))]
    assert len(share_common_subtrees(plan(combine(ir.SetOperation.UNION_ALL, *twice))).shared) == ir.MOST_SHARED


def test_aggregates_that_differ_in_a_literal_are_not_shared() -> None:
    assert share_common_subtrees(plan(cross(sums(1), sums(2)))).shared == ()


def test_literals_that_compare_equal_in_python_are_still_different() -> None:
    source = read("t", k=TEXT, v=I64)
    one, true = (aggregate(project(source, lit(value)), [col(0)], measure("count", col(0))) for value in (1, True))
    assert share_common_subtrees(plan(cross(one, true))).shared == ()


def test_scans_and_joins_are_left_where_they_are() -> None:
    both = join(read("t", v=I64), read("u", w=I64), ir.JoinType.INNER, eq(col(0), col(1)))
    again = join(read("t", v=I64), read("u", w=I64), ir.JoinType.INNER, eq(col(0), col(1)))
    assert share_common_subtrees(plan(cross(both, again))).shared == ()


def test_what_reads_an_enclosing_row_is_not_shared() -> None:
    def counted() -> ir.Subquery:
        matching = filtered(read("u", w=I64), eq(col(0), col(0, outer=1)))
        return subquery(ir.SubqueryKind.SCALAR, aggregate(matching, [], measure("count", col(0))))

    correlated = plan(project(read("t", v=I64), counted(), counted()))
    assert share_common_subtrees(correlated).shared == ()


def test_the_largest_repetition_is_taken() -> None:
    def counted() -> ir.Aggregate:
        return aggregate(sums(), [col(1)], measure("count", col(0, TEXT)))

    shared = share_common_subtrees(plan(cross(counted(), counted())))
    assert len(shared.shared) == 1
    assert len(shared.shared[0].schema) == 2
    assert uses(shared.shared[0]) == []


def test_a_shared_relation_refers_to_earlier_ones_only() -> None:
    nested = aggregate(sums(), [col(1)], measure("count", col(0, TEXT)))
    again = aggregate(sums(), [col(1)], measure("count", col(0, TEXT)))
    shared = share_common_subtrees(plan(cross(cross(nested, again), sums())))
    assert [max(uses(relation), default=-1) < at for at, relation in enumerate(shared.shared)] == [True, True]


def test_the_plans_own_shared_relations_keep_their_uses() -> None:
    own = topn(sums(), [asc(col(0, TEXT))], 2)
    shared_plan = plan(cross(cross(use(0, own), use(0, own)), sums()), own)
    result_rows = rows(shared_plan, {"t": table(read("t", k=TEXT, v=I64), ROWS)})
    assert len(result_rows) == 2 * 2 * 3
    assert {row[0] for row in result_rows} == {"a", "b"}
