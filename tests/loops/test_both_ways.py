"""Every loop that one recursive statement runs gives the same rows, bit for bit, where it goes round by round instead.

Class of bug: a loop taken for one that SQL's recursion computes, or columns, copies and bits that only one way gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.digest import digest
from tidegate.planner import ir
from tidegate.planner.choose.choose_loops import choose_loops
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import Feed
from tidegate.planner.prepare import prepare
from tidegate.proto.values import Loops, TaskOptions

from ..planner.build import (
    F64,
    I64,
    TEXT,
    aggregate,
    call,
    col,
    combine,
    eq,
    iterate,
    join,
    measure,
    plan,
    project,
    reference,
)
from ..planner.relations.naive import Row
from ..planner.running import Form, run, shape_of
from ..planner.test_loops import COPYING, EDGES, closure, read
from ..searching import tries
from . import bodies

UNION, ALL = ir.SetOperation.UNION_DISTINCT, ir.SetOperation.UNION_ALL
SEED = read("seed", a=I64, b=I64)
ROWS: Mapping[str, Sequence[Row]] = {
    "edges": [(1, 2), (2, 3), (3, 1), (3, 4), (4, 4), (None, 5), (5, None), (1, 2)],
    "seed": [(1, 2), (1, 2), (2, 1), (None, None)],
}
FORMS = ("itself", "itself", "all", "distinct", "renamed", "computed", "semi", "left")
SPREAD = Form(channels=2, batch=2)


def is_one_statement(root: ir.Relation) -> bool:
    return isinstance(choose_loops(plan(root), TaskOptions()).root, ir.Recursion)


def digest_of(root: ir.Relation, rows: Mapping[str, Sequence[Row]], loops: Loops, form: Form) -> str:
    prepared = prepare(plan(root), TaskOptions(loops=loops))
    tables = {source.name: bodies.input_table(source, rows[source.name]) for source in prepared.sources}
    result = run(prepared.physical(shape_of(prepared, tables, Feed.STREAM)), tables, form)
    return digest(prepared.schema, result.cast(prepared.schema).to_batches())


def check(root: ir.Relation, rows: Mapping[str, Sequence[Row]], form: Form = SPREAD) -> None:
    assert digest_of(root, rows, Loops.GENERAL, form) == digest_of(root, rows, Loops.AUTO, Form())


@pytest.mark.parametrize("entering", [None, SEED], ids=["nothing enters", "something enters"])
@pytest.mark.parametrize("step", COPYING)
def test_each_kind_of_step(step: ir.Relation, entering: ir.Relation | None) -> None:
    loop = closure(step, entering=entering)
    assert is_one_statement(loop)
    check(loop, ROWS)


@st.composite
def varied_parts(draw: st.DrawFn, part: ir.Relation, type_: t.Type) -> ir.Relation:
    """A part of a union under something that one statement may have there, or may not."""
    edges = bodies.source("edges", type_)
    every = (col(0, type_), col(1, type_))
    match draw(
        st.sampled_from(["itself", "itself", "all", "distinct", "renamed", "computed", "semi", "left", "least"])
    ):
        case "all":
            return combine(ALL, part, edges)
        case "distinct":
            return aggregate(combine(ALL, edges, part), every)
        case "renamed":
            return project(part, *every)
        case "computed":
            return project(part, call("coalesce", *every), col(1, type_))
        case "semi":
            return join(part, edges, ir.JoinType.LEFT_SEMI, eq(col(1, type_), col(2, type_)))
        case "left":
            joined = join(part, edges, ir.JoinType.LEFT, eq(col(1, type_), col(2, type_)))
            return project(joined, col(0, type_), col(3, type_))
        case _:
            return part


@st.composite
def loops(draw: st.DrawFn, type_: t.Type) -> ir.Iterate:
    """With bodies of every form that one statement may have, and of some that it may not."""
    loop = draw(bodies.linear_loops(type_))
    assert isinstance(loop.body, ir.Set)
    parts = [draw(varied_parts(part, type_)) for part in loop.body.inputs]
    whole = replace(combine(draw(st.sampled_from([UNION, UNION, ALL])), *parts), schema=(type_, type_))
    body: ir.Relation = whole
    if whole.operation is ALL and draw(st.booleans()):
        body = aggregate(whole, (col(0, type_), col(1, type_)))
    if draw(st.booleans()):
        body = project(body, col(0, type_), col(1, type_))
    return replace(loop, body=body)


@given(st.data())
@settings(max_examples=tries(15), deadline=None)
def test_whatever_one_statement_runs(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([I64, F64, TEXT]))
    loop, rows = data.draw(loops(type_)), data.draw(bodies.tables(type_))
    if is_one_statement(loop):
        check(loop, rows, data.draw(st.sampled_from([Form(), SPREAD])))


def test_a_least_value_over_a_cycle_is_no_recursive_statement() -> None:
    """SQL's recursion would keep what a smaller value has replaced."""
    step = project(join(reference(1, I64, I64), EDGES, ir.JoinType.INNER, eq(col(0), col(2))), col(3), col(1))
    start = project(EDGES, col(0), col(0))
    loop = iterate(1, aggregate(combine(ALL, start, step), (col(0),), measure("min", col(1))))
    assert not is_one_statement(loop)
    check(loop, {"edges": [(1, 2), (2, 3), (3, 1), (7, 3)]})
