"""Facts about a fragment's ordered form and its hash joins that need no question to DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidegate.planner import ir
from tidegate.planner.ordering.form import OrderedForm

from ..build import aggregate, call, col, cross, eq, filtered, join, lit, measure, project, read, sort, subquery, topn
from ..build import asc as ascending

T = read("t", a=col(0).type, b=col(0).type)
U = read("u", c=col(0).type)
TOTAL = aggregate(filtered(T, eq(col(0), lit(1))), [col(1)], measure("count", col(0)))
EQUAL = join(T, U, ir.JoinType.INNER, eq(col(0), col(2)))
RANGE = join(T, U, ir.JoinType.INNER, call("lt", col(0), col(2)))

KNOWN = {
    "rows that are filtered and grouped": (TOTAL, False),
    "a join of equal columns": (project(EQUAL, col(1)), True),
    "one of several joins": (join(RANGE, U, ir.JoinType.LEFT, eq(col(0), col(3))), True),
    "a join by a range": (RANGE, None),
    "all pairs": (cross(T, U), None),
    "a subquery": (project(T, subquery(ir.SubqueryKind.SCALAR, aggregate(U, [], measure("max", col(0))))), None),
    "the first rows, which DuckDB may look up by their places": (topn(T, [ascending(col(0))], 5), None),
    "a sort": (sort(T, ascending(col(0))), None),
}


@pytest.mark.parametrize("case", KNOWN)
def test_whether_a_hash_table_is_built(case: str) -> None:
    relation, wanted = KNOWN[case]
    assert OrderedForm(relation, (), (), lambda relation, shared: "").builds is wanted


def test_a_common_subtree_whose_rows_are_exchanged_is_read_as_it_is() -> None:
    moved = ir.Exchange(input=T, routing=ir.Routing.GATHER, producers=2, rows=9, schema=T.schema, plan_path="here")
    used = ir.Shared(ordinal=0, schema=T.schema, plan_path="there")
    read_from: list[ir.Relation] = []

    def render(_: ir.Relation, shared: Sequence[ir.Relation]) -> str:
        read_from.append(shared[0])
        return "SELECT"

    assert OrderedForm(used, (moved,), {moved}, render).sql == "SELECT"
    assert read_from == [moved]
