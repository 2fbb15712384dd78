"""Loops that one recursive statement runs, against what a loop means, taken literally.

Class of bug: SQL's recursion, which sees only the rows of the last round, taken for the loop where it is another thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.physical.pipelines import Feed
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ..planner.build import (
    F64,
    I64,
    TEXT,
    aggregate,
    col,
    combine,
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
)
from ..planner.relations.naive import Row, same
from ..planner.running import Form, run, shape_of
from ..searching import tries
from . import bodies
from .oracle import TooManyRows, evaluate

TYPES = st.sampled_from([I64, F64, TEXT])
MOST_ROWS = 3_000
EDGES = read("edges", a=I64, b=I64)


def run_it(root: ir.Relation, rows: Mapping[str, Sequence[Row]], form: Form, feed: Feed = Feed.FILES) -> list[Row]:
    """The plan's rows, as the planner would have it run."""
    prepared = prepare(plan(root), TaskOptions())
    tables = {source.name: bodies.input_table(source, rows[source.name]) for source in prepared.sources}
    result = run(prepared.physical(shape_of(prepared, tables, feed)), tables, form)
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))


def expected(root: ir.Relation, rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    """What the plan means. A loop that makes more rows on the way than plain Python is quick with is no example."""
    tables = {name: (bodies.NAMES, table_rows) for name, table_rows in rows.items()}
    try:
        return evaluate(plan(root), tables, most_rows=MOST_ROWS)
    except TooManyRows:
        reject()


def texts(rows: Sequence[Row]) -> list[str]:
    """Rows to compare in their order, NaN with NaN and 0.0 not with -0.0."""
    return [repr(row) for row in rows]


@given(st.data())
@settings(max_examples=tries(35))
def test_a_loop_gives_the_rows_that_no_longer_change_in_canonical_order(data: st.DataObject) -> None:
    type_ = data.draw(TYPES)
    loop, rows = data.draw(bodies.linear_loops(type_)), data.draw(bodies.tables(type_))
    form = Form(ordered=data.draw(st.booleans()), batch=data.draw(st.sampled_from([None, 2])))
    result_rows = run_it(loop, rows, form, data.draw(st.sampled_from(Feed)))
    assert texts(result_rows) == texts(expected(loop, rows))


@given(st.data())
@settings(max_examples=tries(16))
def test_a_loop_inside_a_larger_plan_gives_the_same_rows(data: st.DataObject) -> None:
    """Joined with a source that its body reads too, filtered and grouped."""
    loop, rows = data.draw(bodies.linear_loops(I64)), data.draw(bodies.tables(I64))
    joined = join(loop, EDGES, data.draw(st.sampled_from([ir.JoinType.INNER, ir.JoinType.LEFT])), eq(col(1), col(2)))
    grouped = aggregate(filtered(joined, eq(col(0), col(0))), (col(0),), measure("count", col(3)))
    form = Form(ordered=data.draw(st.booleans()))
    assert same(run_it(grouped, rows, form)) == same(expected(grouped, rows))


def test_what_enters_keeps_its_copies_over_a_two_cycle() -> None:
    """SQL's own recursion would give one of each: what enters counts on top of what the body makes of it."""
    seed = read("seed", a=I64)
    step = project(join(reference(1, I64), EDGES, ir.JoinType.INNER, eq(col(0), col(1))), col(2))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, step, step_back()), seed)
    rows = {"seed": [(1,), (1,)], "edges": [(1, 2), (2, 1)]}
    assert run_it(loop, rows, Form()) == [(1,), (1,), (1,), (2,)] == expected(loop, rows)


def step_back() -> ir.Relation:
    return project(join(reference(1, I64), EDGES, ir.JoinType.INNER, eq(col(0), col(2))), col(1))


@pytest.mark.parametrize("entering", [None, read("seed", a=I64, b=I64)])
def test_a_loop_that_nothing_starts_is_empty(entering: ir.Relation | None) -> None:
    body = combine(ir.SetOperation.UNION_DISTINCT, reference(1, I64, I64), reference(1, I64, I64))
    assert run_it(iterate(1, body, entering), {"seed": [], "edges": []}, Form()) == []


def test_a_body_that_says_distinct_with_an_aggregate_is_a_union_of_distinct_rows() -> None:
    steps = project(join(reference(1, I64, I64), EDGES, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))
    union = combine(ir.SetOperation.UNION_ALL, EDGES, steps)
    loop = iterate(1, aggregate(union, (col(0), col(1))))
    rows = {"edges": [(1, 2), (2, 3), (3, 1), (1, 2)]}
    assert run_it(loop, rows, Form()) == expected(loop, rows)
    assert len(expected(loop, rows)) == 9


def test_a_loop_inside_of_what_another_one_starts_from() -> None:
    inner = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, EDGES, reference(1, I64, I64)))
    step = project(join(reference(2, I64, I64), inner, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))
    outer = iterate(2, combine(ir.SetOperation.UNION_DISTINCT, filtered(inner, eq(col(0), lit(1))), step))
    rows = {"edges": [(1, 2), (2, 3), (5, 6)]}
    assert run_it(outer, rows, Form()) == expected(outer, rows) == [(1, 2), (1, 3)]


def test_what_a_step_joins_with_is_computed_once_and_not_in_every_round() -> None:
    """A stream that is asked for twice fails the run; a chain takes a round for every edge."""
    counted = aggregate(EDGES, (col(0),), measure("min", col(1)))
    step = project(join(reference(1, I64), counted, ir.JoinType.INNER, eq(col(0), col(1))), col(2))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, project(EDGES, col(0)), step))
    rows = {"edges": [(at, at + 1) for at in range(50)]}
    assert run_it(loop, rows, Form(), Feed.STREAM) == [(at,) for at in range(51)]


def test_sources_are_read_for_the_columns_that_the_loop_uses() -> None:
    wide = read("edges", a=I64, unused=TEXT, b=I64)
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, project(wide, col(2)), reference(1, I64)))
    prepared = prepare(plan(loop), TaskOptions())
    assert [column.name for column in prepared.sources[0].columns] == ["b"]
