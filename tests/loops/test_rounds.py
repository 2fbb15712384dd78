"""Loops that go round by round, against what a loop means, taken literally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.physical.pipelines import Feed
from tidegate.planner.prepare import prepare
from tidegate.proto.errors import TidegateError
from tidegate.proto.values import Loops, TaskOptions

from ..planner.build import (
    F64,
    I64,
    TEXT,
    aggregate,
    asc,
    call,
    col,
    combine,
    desc,
    eq,
    fetch,
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
)
from ..planner.relations.naive import Row
from ..planner.running import Form, run, shape_of
from ..searching import tries
from . import bodies
from .test_recursive_statements import expected, texts

TYPES = st.sampled_from([I64, F64, TEXT])
EDGES = read("edges", a=I64, b=I64)


def run_it(root: ir.Relation, rows: Mapping[str, Sequence[Row]], form: Form) -> list[Row]:
    prepared = prepare(plan(root), TaskOptions(loops=Loops.GENERAL))
    tables = {source.name: bodies.input_table(source, rows[source.name]) for source in prepared.sources}
    result = run(prepared.physical(shape_of(prepared, tables, Feed.STREAM)), tables, form)
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))


@given(st.data())
@settings(max_examples=tries(25), deadline=None)
def test_a_loop_gives_the_rows_that_no_longer_change_in_canonical_order(data: st.DataObject) -> None:
    type_ = data.draw(TYPES)
    loop, rows = data.draw(bodies.linear_loops(type_)), data.draw(bodies.tables(type_))
    form = Form(batch=data.draw(st.sampled_from([None, 2])), channels=data.draw(st.sampled_from([1, 2, 3])))
    assert texts(run_it(loop, rows, form)) == texts(expected(loop, rows))


def test_a_loop_with_two_references_goes_on_from_both() -> None:
    step = project(
        join(reference(1, I64, I64), reference(1, I64, I64), ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3)
    )
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, EDGES, step))
    rows = {"edges": [(at, at + 1) for at in range(10)] + [(5, 0)]}
    for channels in (1, 2):
        assert run_it(loop, rows, Form(channels=channels)) == expected(loop, rows)


def test_a_least_value_replaces_the_one_before_it() -> None:
    ref = reference(1, I64, I64)
    step = project(join(ref, EDGES, ir.JoinType.INNER, eq(col(0), col(2))), col(3), col(1))
    start = project(EDGES, col(0), col(0))
    loop = iterate(1, aggregate(combine(ir.SetOperation.UNION_ALL, start, step), (col(0),), measure("min", col(1))))
    rows = {"edges": [(1, 2), (2, 3), (3, 1), (7, 3), (9, 8)]}
    for channels in (1, 2):
        assert run_it(loop, rows, Form(channels=channels)) == expected(loop, rows)


@pytest.mark.parametrize("channels", [1, 2])
def test_what_enters_keeps_its_copies_over_a_two_cycle(channels: int) -> None:
    """SQL's own recursion would give one of each: what enters counts on top of what the body makes of it."""
    seed = read("seed", a=I64)
    step = project(join(reference(1, I64), EDGES, ir.JoinType.INNER, eq(col(0), col(1))), col(2))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, step, reference(1, I64)), seed)
    rows = {"seed": [(1,), (1,)], "edges": [(1, 2), (2, 1)]}
    assert run_it(loop, rows, Form(channels=channels)) == expected(loop, rows)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_loop_reads_what_came_back_to_the_one_around_it(channels: int) -> None:
    """From every node that the outer loop has reached, the inner one goes back along the edges."""
    outer, inner = reference(1, I64), reference(2, I64)
    back = project(join(inner, EDGES, ir.JoinType.INNER, eq(col(0), col(2))), col(1))
    within = iterate(2, combine(ir.SetOperation.UNION_DISTINCT, outer, back))
    onward = project(join(within, EDGES, ir.JoinType.INNER, eq(col(0), col(1))), col(2))
    loop = iterate(1, combine(ir.SetOperation.UNION_DISTINCT, read("seed", a=I64), onward))
    rows = {"seed": [(3,)], "edges": [(1, 2), (2, 3), (1, 4), (4, 5), (8, 9)]}
    assert run_it(loop, rows, Form(channels=channels)) == expected(loop, rows) != []


@pytest.mark.parametrize("channels", [1, 2])
def test_an_order_reaches_a_limit_through_limits_filters_and_projections(channels: int) -> None:
    """Producers write an offset as a limit of a limit. The order is that of the sort at the bottom."""
    ordered = fetch(sort(reference(1, I64, I64), desc(col(1)), asc(col(0))), 4)
    kept = filtered(ordered, call("not_equal", col(0), lit(3)))
    limits = fetch(kept, 2, 1)
    loop = iterate(1, project(fetch(project(limits, col(1), col(0)), 1, 1), col(1), col(0)), EDGES, max_rounds=2)
    loop = replace(loop, at_limit=ir.AtLimit.RETURN)
    rows = {"edges": [(1, 2), (2, 9), (3, 8), (4, 7), (5, 7)]}
    # 2, 3, 4 and 5 have the most; 3 is left out, then 2, then 4
    assert run_it(loop, rows, Form(channels=channels)) == sorted([*rows["edges"], (5, 7)])


def test_a_loop_beyond_its_rounds_gives_what_it_has_or_fails() -> None:
    step = project(reference(1, I64), call("add", col(0), lit(1)))
    rows = {"seed": [(0,)]}
    few = iterate(1, step, read("seed", a=I64), max_rounds=3, at_limit=ir.AtLimit.RETURN)
    assert run_it(few, rows, Form()) == [(0,), (1,), (2,)]
    with pytest.raises(TidegateError, match=r"loop 'loop1'.*3 rounds"):
        run_it(replace(few, at_limit=ir.AtLimit.ERROR), rows, Form())
