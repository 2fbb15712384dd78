"""Class of bug: planning that takes out of proportion to the plan, a column, a literal or a relation at a time.

Steps are counted, not timed: so many times more of anything may cost a little more than so many times more steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import ComputeNode, nodes_of
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import Feed, FragmentNode, SourceShape
from tidegate.planner.prepare import prepare
from tidegate.planner.prepare_changes import prepare_changes
from tidegate.planner.sql import literal_rows
from tidegate.proto.values import Mode, TaskOptions

from . import steps
from .build import (
    BOOL,
    I64,
    aggregate,
    asc,
    call,
    case,
    col,
    combine,
    eq,
    expand,
    filtered,
    join,
    lit,
    measure,
    plan,
    project,
    read,
    sort,
    subquery,
    table,
    topn,
    values,
    window,
    window_call,
)

NUMBERS = read("n", k=I64)
OTHER = read("m", k=I64)
EMPTY = {"n": table(NUMBERS, []), "m": table(OTHER, [])}
TIMES = 4
TWICE = 2 * literal_rows.MANY
SLACK = 1.25

Make = Callable[[int], ir.Relation]


@dataclass(frozen=True)
class Given:
    plan: ir.Plan
    warnings: Sequence[str] = ()


def wide(size: int, source: str = "n") -> ir.Read:
    return read(source, **{f"c{at}": I64 for at in range(size)})


def nested(level: Callable[[ir.Relation, int], ir.Relation], height: int) -> ir.Relation:
    relation: ir.Relation = NUMBERS
    for at in range(height):
        relation = level(relation, at)
    return relation


def deep(level: Callable[[ir.Expression, int], ir.Expression], height: int) -> ir.Expression:
    expression: ir.Expression = col(0)
    for at in range(height):
        expression = level(expression, at)
    return expression


def more_than(at: int) -> ir.Expression:
    return call("gt", col(0), lit(-at))


def one_of(size: int) -> ir.Expression:
    return ir.OneOf(value=(col(0),), options=tuple((lit(at),) for at in range(size)), type=BOOL)


def joined(below: ir.Relation, at: int) -> ir.Relation:
    return join(below, OTHER, ir.JoinType.LEFT_SEMI, eq(col(0), col(1)))


DEPTH: dict[str, Make] = {
    "projections": lambda size: nested(lambda below, _: project(below, call("add", col(0), lit(1))), size),
    "filters": lambda size: nested(lambda below, at: filtered(below, more_than(at)), size),
    "sorts": lambda size: nested(lambda below, _: sort(below, asc(col(0))), size),
    "joins": lambda size: nested(joined, size),
    "unions of two": lambda size: nested(lambda below, _: combine(ir.SetOperation.UNION_ALL, below, NUMBERS), size),
    "an expression": lambda size: project(NUMBERS, deep(lambda below, at: call("add", below, lit(at)), size)),
    "cases": lambda size: project(NUMBERS, deep(lambda below, at: case(more_than(at), lit(at), below), size)),
}
WIDTH: dict[str, Make] = {
    "columns read": wide,
    "columns filtered": lambda size: filtered(wide(size), more_than(0)),
    "columns computed": lambda size: project(NUMBERS, *(call("add", col(0), lit(at)) for at in range(size))),
    "columns sorted": lambda size: sort(wide(size), asc(col(0))),
    "columns joined": lambda size: join(wide(size), wide(size, "m"), ir.JoinType.LEFT, eq(col(0), col(size))),
    "pairs that are equal": lambda size: join(
        sort(wide(size), *(asc(col(at)) for at in range(size))),
        sort(wide(size, "m"), *(asc(col(at)) for at in range(size))),
        ir.JoinType.INNER,
        call("and", *(eq(col(at), col(size + at)) for at in range(size))),
    ),
    "columns of a union": lambda size: combine(ir.SetOperation.UNION_DISTINCT, wide(size), wide(size, "m")),
    "keys": lambda size: aggregate(wide(size), [col(at) for at in range(size)]),
    "measures": lambda size: aggregate(wide(size), [col(0)], *(measure("sum", col(at)) for at in range(size))),
    "filtered measures": lambda size: aggregate(
        wide(size), [col(0)], *(measure("sum", col(at), condition=more_than(at)) for at in range(size))
    ),
    "windows": lambda size: window(
        wide(size), *(window_call("sum", col(at), partitions=(col(0),)) for at in range(size))
    ),
    "sort keys": lambda size: sort(wide(size), *(asc(col(at)) for at in range(size))),
    "keys of a top-n": lambda size: topn(wide(size), [asc(col(at)) for at in range(size)], 3),
    "literals in a list": lambda size: filtered(NUMBERS, one_of(size)),
    "rows": lambda size: values([I64], *((at,) for at in range(size))),
    "alternatives": lambda size: expand(NUMBERS, *((lit(at),) for at in range(size))),
    "inputs": lambda size: combine(ir.SetOperation.UNION_ALL, *(filtered(NUMBERS, more_than(0)) for _ in range(size))),
    "inputs that are grouped": lambda size: combine(
        ir.SetOperation.UNION_ALL, *(aggregate(filtered(NUMBERS, more_than(at)), [col(0)]) for at in range(size))
    ),
    "reads of one column each": lambda size: combine(
        ir.SetOperation.UNION_ALL, *(read("n", **{f"c{at}": I64}) for at in range(size))
    ),
    "subqueries": lambda size: filtered(
        NUMBERS,
        call("and", *(subquery(ir.SubqueryKind.IN, filtered(OTHER, more_than(at)), col(0)) for at in range(size))),
    ),
}


def grows(make: Callable[[int], int], size: int) -> bool:
    """Whether it takes out of proportion. It is made once before: what is remembered for good is no matter of size."""
    make(size)
    return make(TIMES * size) > TIMES * make(size) * SLACK


@pytest.mark.parametrize("make", DEPTH.values(), ids=DEPTH)
def test_depth_costs_in_proportion(make: Make) -> None:
    assert not grows(lambda size: steps.of_planning(plan(make(size)), EMPTY), 50)


@pytest.mark.parametrize("make", WIDTH.values(), ids=WIDTH)
def test_width_costs_in_proportion(make: Make) -> None:
    assert not grows(lambda size: steps.of_planning(plan(make(size)), EMPTY), 20)


def test_a_literal_costs_few_steps_because_passes_look_for_subqueries_past_leaves() -> None:
    many, more = (
        steps.of_planning(plan(WIDTH["literals in a list"](size)), EMPTY) for size in (literal_rows.MANY, TWICE)
    )
    assert (more - many) / (TWICE - literal_rows.MANY) < 200


@pytest.mark.parametrize("size", [10, 1_000])
def test_fields_of_a_struct_that_are_not_used_are_not_in_the_statement(size: int) -> None:
    struct = t.Struct(fields=(I64,) * size, names=tuple(f"f{at}" for at in range(size)))
    last = project(read("n", s=struct), ir.Field(index=0, type=I64, steps=(size - 1,)))
    prepared = prepare(plan(last), TaskOptions())
    (pipeline,) = prepared.physical({"n": SourceShape(feed=Feed.STREAM, size_class=1)}).pipelines
    assert isinstance(pipeline.root, FragmentNode)
    assert len(pipeline.root.sql) < 200


@pytest.mark.parametrize("case", ["columns filtered", "columns sorted", "columns joined", "keys"])
def test_columns_of_an_input_have_no_select_of_their_own_because_each_costs_the_second_power_of_its_columns(
    case: str,
) -> None:
    prepared = prepare(plan(WIDTH[case](20)), TaskOptions())
    stream = SourceShape(feed=Feed.STREAM, size_class=1)
    (pipeline,) = prepared.physical({source.name: stream for source in prepared.sources}).pipelines
    assert isinstance(pipeline.root, FragmentNode)
    assert pipeline.root.sql.count("SELECT") == 1
    assert pipeline.root.sql.count(".c7") == pipeline.root.sql.count("in0 AS r1") + pipeline.root.sql.count("in1 AS r2")


@pytest.mark.parametrize("case", ["columns joined", "keys", "measures", "inputs"])
def test_width_costs_in_proportion_on_several_channels(case: str) -> None:
    assert not grows(lambda size: steps.of_planning(plan(WIDTH[case](size)), EMPTY, channels=2), 12)


@pytest.mark.parametrize("make", WIDTH.values(), ids=WIDTH)
def test_width_costs_in_proportion_over_changes(make: Make) -> None:
    def work(size: int) -> int:
        decoded = Given(plan(make(size)))
        return steps.of(lambda: prepare_changes(decoded, TaskOptions(mode=Mode.CONTINUOUS)))

    assert not grows(work, 20)


def test_a_set_of_keys_over_changes_has_statements_of_its_own_columns_alone() -> None:
    sets = aggregate(wide(20), [col(at) for at in range(20)], measure("avg", col(0)), sets=[[at] for at in range(20)])
    prepared = prepare_changes(Given(plan(sets)), TaskOptions(mode=Mode.CONTINUOUS))
    computed = [node for node in nodes_of(prepared.root) if isinstance(node, ComputeNode)]
    assert len(computed) >= 20
    assert max(len(node.schema) for node in computed) < 5


@pytest.mark.parametrize("make", [DEPTH["joins"], DEPTH["filters"]], ids=["joins", "filters"])
def test_sources_that_stay_cost_in_proportion(make: Make) -> None:
    assert not grows(lambda size: steps.of_planning(plan(make(size)), EMPTY, static=("m",)), 30)
