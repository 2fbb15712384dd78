"""The ordered form of a fragment: the same rows, in an order that is not its joins'.

Class of bug: an order, or a float's last bits, that depend on how a join hands out its rows. Here DuckDB joins in
several ways: over batches of several sizes, and with some of its optimizers switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.arrays.digest import digest
from tidegate.planner import ir
from tidegate.planner.physical.pipelines import Feed
from tidegate.planner.prepare import prepare
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions

from ...searching import one_of_each
from ..build import (
    F64,
    I64,
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
from ..running import Form, run, shape_of

OPTIMIZERS = "join_order,build_side_probe_side,filter_pushdown,join_filter_pushdown"
WAYS = (("", None), ("", 7), ("", 64), (OPTIMIZERS, None), (OPTIMIZERS, 13))
LEFT, RIGHT = read("l", k=I64, v=F64), read("r", k=I64, w=F64)
EQUAL = eq(col(0), col(2))
JOIN = join(LEFT, RIGHT, ir.JoinType.INNER, EQUAL)
INNER = filtered(RIGHT, eq(col(0), col(0, outer=1)))
SUM_OF_MATCHES = subquery(ir.SubqueryKind.SCALAR, aggregate(INNER, [], measure("sum", col(1, F64))))
ARRIVALS = window_call("sum", col(1, F64), partitions=(col(0),))


def numbers(seed: int, rows: int) -> pa.Table:
    """Few keys, and values of very different sizes, so that a sum shows the order of adding."""
    random = np.random.default_rng(seed)
    return pa.table(
        {"k": random.integers(0, 40, rows), "v": random.normal(size=rows) * 10.0 ** random.integers(-9, 9, rows)}
    )


TABLES = {"l": numbers(1, 300), "r": numbers(2, 500).rename_columns(["k", "w"])}

CASES: dict[str, ir.Relation] = {
    **{
        f"a {type_.value} join": join(LEFT, RIGHT, type_, EQUAL) for type_ in ir.JoinType if "single" not in type_.value
    },
    "a single join": join(
        LEFT, aggregate(RIGHT, [col(0)], measure("sum", col(1, F64))), ir.JoinType.LEFT_SINGLE, EQUAL
    ),
    "three joins": join(
        join(JOIN, LEFT, ir.JoinType.LEFT, eq(col(1, F64), col(5, F64))),
        RIGHT,
        ir.JoinType.OUTER,
        eq(col(0), col(6)),
    ),
    "a lateral join": join(LEFT, INNER, ir.JoinType.LEFT, None, lateral=True),
    "sums of floats": aggregate(JOIN, [col(0)], measure("sum", col(3, F64)), measure("count")),
    "counts above which floats are summed": aggregate(
        aggregate(JOIN, [col(0), col(1, F64)], measure("count")), [col(0)], measure("sum", col(1, F64))
    ),
    "joined sums": join(aggregate(JOIN, [col(0)], measure("sum", col(3, F64))), RIGHT, ir.JoinType.INNER, EQUAL),
    "a limit": fetch(JOIN, 70, 20),
    "a limit below a join": join(fetch(JOIN, 70, 20), RIGHT, ir.JoinType.INNER, eq(col(0), col(4))),
    "ties of a sort": sort(JOIN, asc(col(0))),
    "ties of a top-n": topn(JOIN, [asc(col(0))], 50),
    "a top-n with ties": topn(JOIN, [asc(col(0))], 50, ties=True),
    "a window": window(JOIN, ARRIVALS),
    "a joined window": join(window(JOIN, ARRIVALS), RIGHT, ir.JoinType.INNER, eq(col(0), col(5))),
    "a union": combine(
        ir.SetOperation.UNION_ALL, LEFT, project(JOIN, col(0), col(3, F64)), values([I64, F64], (1, 2.0))
    ),
    "a joined union": join(combine(ir.SetOperation.UNION_ALL, LEFT, RIGHT, LEFT), RIGHT, ir.JoinType.OUTER, EQUAL),
    "an expanded join": expand(JOIN, (col(0), col(1, F64)), (col(2), col(3, F64))),
    **{
        f"set {operation.value}": combine(
            operation, project(JOIN, col(0)), project(RIGHT, col(0)), project(LEFT, col(0))
        )
        for operation in ir.SetOperation
    },
    "a filter by a subquery": filtered(LEFT, subquery(ir.SubqueryKind.IN, project(RIGHT, col(0)), col(0))),
    "a correlated sum": project(LEFT, col(0), col(1, F64), SUM_OF_MATCHES),
    "a correlated limit": project(
        LEFT, col(0), subquery(ir.SubqueryKind.SCALAR, fetch(project(INNER, col(1, F64)), 1))
    ),
}


def answers(relation: ir.Relation, *, ordered: bool, feed: Feed = Feed.STREAM) -> Iterator[pa.Table]:
    """Each way's, computed as it is asked for."""
    prepared = prepare(plan(relation), TaskOptions())
    physical = prepared.physical(shape_of(prepared, TABLES, feed))
    for without, batch in WAYS:
        yield run(physical, TABLES, Form(ordered=ordered, without=without, batch=batch))


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Floats to nine digits: their sums depend on order in the plain form."""
    columns = (column.to_pylist() for column in table.columns)
    rounded = ([f"{v:.9e}" if isinstance(v, float) else v for v in column] for column in columns)
    return Counter(zip(*rounded, strict=True))


@pytest.mark.parametrize(("case", "feed"), one_of_each(product(CASES, Feed)))
def test_it_has_one_order_however_joins_are_done(case: str, feed: Feed) -> None:
    tables = answers(CASES[case], ordered=True, feed=feed)
    assert len({digest(table.schema, iter(table.to_batches())) for table in tables}) == 1


#: What a limit takes, and how many of its rows a window adds before another, is another in the plain form.
OTHER_ROWS = ("a limit", "a limit below a join", "a correlated limit", "ties of a top-n")


@pytest.mark.parametrize("case", [case for case in CASES if case not in OTHER_ROWS])
def test_it_has_the_plain_forms_rows(case: str) -> None:
    ordered, plain = (next(answers(CASES[case], ordered=is_ordered)) for is_ordered in (True, False))
    assert rows(ordered) == rows(plain)


def test_the_plain_form_has_several_orders() -> None:
    tables = answers(JOIN, ordered=False)
    assert len({digest(table.schema, iter(table.to_batches())) for table in tables}) > 1


def test_rows_of_no_join_are_left_as_they_come() -> None:
    prepared = prepare(plan(filtered(LEFT, call("gt", col(0), col(0)))), TaskOptions())
    root = prepared.physical(shape_of(prepared, TABLES)).pipelines[0].root
    assert root.ordered is not None
    assert root.ordered.sql == root.sql


def test_counts_need_no_sort() -> None:
    prepared = prepare(plan(aggregate(JOIN, [], measure("count"))), TaskOptions())
    root = prepared.physical(shape_of(prepared, TABLES)).pipelines[0].root
    assert root.ordered is not None
    assert "ORDER BY" not in root.ordered.sql


def test_a_window_for_each_enclosing_row_is_refused_by_its_place() -> None:
    inner = window(INNER, window_call("row_number"))
    relation = project(LEFT, subquery(ir.SubqueryKind.SCALAR, aggregate(inner, [], measure("max", col(2)))))
    with pytest.raises(PlanError, match="repeatable") as caught:
        next(answers(relation, ordered=True))
    assert caught.value.reason == "ORDER_NOT_REPEATABLE"
    assert caught.value.problems[0].place == inner.plan_path
