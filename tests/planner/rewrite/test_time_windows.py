"""An as-of join that reads no row and no loop around it runs over sorted rows, wherever it stands."""

from __future__ import annotations

import pytest

from tidegate.operators.changes.event_time.interval_closing import IntervalClosing
from tidegate.operators.changes.event_time.window_closing import Ticks
from tidegate.planner import ir
from tidegate.planner.ir.visit import has
from tidegate.planner.rewrite.time_windows import end_windows_at_barriers

from ..build import I64, col, combine, eq, filtered, iterate, plan, project, read, reference, subquery


def as_of(left: ir.Relation) -> ir.AsOfJoin:
    right = read("r", t=I64)
    return ir.AsOfJoin(
        left=left,
        right=right,
        keys=(),
        marks=(col(0), col(1)),
        type=ir.JoinType.INNER,
        tolerance=None,
        closing=IntervalClosing(before=0, after=0, lateness=0, ticks=Ticks()),
        final=False,
        schema=(*left.schema, *right.schema),
        plan_path="as-of",
    )


def inside(relation: ir.Relation) -> ir.Relation:
    return filtered(read("m", x=I64), subquery(ir.SubqueryKind.EXISTS, relation))


def looped(relation: ir.Relation) -> ir.Relation:
    entering = read("m", x=I64)
    return iterate(1, combine(ir.SetOperation.UNION_ALL, reference(1, I64), project(relation, col(0))), entering)


ROWS = read("l", t=I64)
SAME = filtered(ROWS, eq(col(0), col(0, outer=1)))

CLOSED = {
    "alone": as_of(ROWS),
    "in a subquery": inside(as_of(ROWS)),
    "below a row of the query around it": inside(filtered(as_of(ROWS), eq(col(0), col(0, outer=1)))),
    "with a subquery of its own": as_of(inside(SAME)),
    "in a loop": looped(as_of(ROWS)),
}
OPEN = {"over a row of the query around it": inside(as_of(SAME)), "over a loop": looped(as_of(reference(1, I64)))}


@pytest.mark.parametrize("relation", CLOSED.values(), ids=CLOSED)
def test_it_is_merged_where_it_reads_nothing_around_it(relation: ir.Relation) -> None:
    assert has(end_windows_at_barriers(plan(relation)), ir.AsOfMergeJoin)


@pytest.mark.parametrize("relation", OPEN.values(), ids=OPEN)
def test_it_stays_in_the_statement_where_it_reads_a_row_or_a_loop_around_it(relation: ir.Relation) -> None:
    ended = end_windows_at_barriers(plan(relation))
    assert not has(ended, ir.AsOfMergeJoin, ir.AsOfJoin)
