"""Plans thousands of levels deep: planned in linear time, and run by DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.planner import ir
from tidegate.planner.cut.divide import DEPTH
from tidegate.planner.ir import types as t
from tidegate.planner.physical.pipelines import Feed, FragmentNode, PhysicalPlan, SourceShape, Start
from tidegate.planner.prepare import prepare
from tidegate.planner.rewrite.split_expressions import READINGS
from tidegate.proto.errors import PlanError
from tidegate.proto.values import TaskOptions

from .build import (
    I64,
    aggregate,
    asc,
    call,
    case,
    col,
    combine,
    eq,
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
)
from .decode import plans
from .running import CLOCKS, rows, shape_of

LEVELS = 1_200
NUMBERS = read("n", k=I64)
DATA = {"n": table(NUMBERS, [(1,), (2,), (None,)])}


def nested(level: Callable[[ir.Relation, int], ir.Relation], height: int = LEVELS) -> ir.Relation:
    relation: ir.Relation = NUMBERS
    for at in range(height):
        relation = level(relation, at)
    return relation


def deep(level: Callable[[ir.Expression, int], ir.Expression], height: int = LEVELS) -> ir.Expression:
    expression: ir.Expression = col(0)
    for at in range(height):
        expression = level(expression, at)
    return expression


def fragments(physical: PhysicalPlan) -> list[FragmentNode]:
    nodes, stack = [], [pipeline.root for pipeline in physical.pipelines]
    while stack:
        node = stack.pop()
        if isinstance(node, FragmentNode):
            nodes.append(node)
            stack.extend(stream.node for stream in node.streams)
    return nodes


@pytest.mark.parametrize("feed", Feed)
def test_a_chain_of_projections_runs(feed: Feed) -> None:
    relation = nested(lambda below, _: project(below, call("add", col(0), lit(1))))
    assert rows(plan(relation), DATA, feed=feed) == [(LEVELS + 1,), (LEVELS + 2,), (None,)]


def test_a_chain_of_filters_runs() -> None:
    relation = nested(lambda below, at: filtered(below, call("gt", col(0), lit(-at))))
    assert rows(plan(relation), DATA) == [(1,), (2,)]


def test_a_chain_of_sorts_and_aggregates_runs() -> None:
    relation = nested(lambda below, at: sort(below, asc(col(0))) if at % 2 else aggregate(below, [col(0)]))
    assert rows(plan(relation), DATA) == [(1,), (2,), (None,)]


def test_a_chain_of_joins_runs() -> None:
    other = read("m", k=I64)
    relation = nested(lambda below, _: join(below, other, ir.JoinType.LEFT_SEMI, eq(col(0), col(1))), 400)
    assert sorted(rows(plan(relation), {**DATA, "m": DATA["n"]})) == [(1,), (2,)]


def test_a_union_of_many_inputs_runs() -> None:
    relation = combine(ir.SetOperation.UNION_DISTINCT, *([NUMBERS] * 500))
    assert sorted(rows(plan(relation), DATA), key=str) == [(1,), (2,), (None,)]


def test_fragments_are_cut_where_they_would_be_too_deep() -> None:
    relation = nested(lambda below, _: project(below, call("add", col(0), lit(1))))
    prepared = prepare(plan(relation), TaskOptions())
    nodes = fragments(prepared.physical(shape_of(prepared, DATA)))
    assert len(nodes) == LEVELS // (DEPTH - 1) + 1
    assert max(node.relations for node in nodes) <= DEPTH
    assert sum(node.relations for node in nodes) == LEVELS + 1


def test_a_statement_has_at_most_fifty_joins_because_to_order_them_takes_the_second_power_of_their_number() -> None:
    relation = nested(lambda below, at: join(below, read(f"s{at}", k=I64), ir.JoinType.INNER, eq(col(0), col(1))), 160)
    prepared = prepare(plan(relation), TaskOptions())
    tables = {source.name: table(NUMBERS, []) for source in prepared.sources}
    joins = [node.sql.count(" JOIN ") for node in fragments(prepared.physical(shape_of(prepared, tables)))]
    assert sum(joins) == 160
    assert max(joins) <= DEPTH // 2


def test_a_row_wise_chain_stays_row_wise_when_it_is_cut() -> None:
    relation = nested(lambda below, _: project(below, call("add", col(0), lit(1))), 250)
    prepared = prepare(plan(relation), TaskOptions())
    physical = prepared.physical(shape_of(prepared, DATA))
    assert [pipeline.start for pipeline in physical.pipelines] == [Start.PIECE]
    assert all(fragment.row_wise for fragment in fragments(physical))


def test_a_deep_sum_runs() -> None:
    expression = deep(lambda below, at: call("add", below, lit(at)))
    expected = sum(range(LEVELS))
    assert rows(plan(project(NUMBERS, expression)), DATA) == [(expected + 1,), (expected + 2,), (None,)]


TODAY = ir.ContextVariable(variable=ir.Clock.DATE, type=t.Date(nullable=False))
LATER = call("gt", TODAY, lit(0, t.Date(nullable=False)))
OVER_MANY_READINGS = {
    "project": lambda: (project(NUMBERS, *[TODAY] * LEVELS), [(CLOCKS[ir.Clock.DATE].as_py(),) * LEVELS] * 3),
    "filter": lambda: (filtered(NUMBERS, call("and", *[LATER] * LEVELS, eq(col(0), lit(2)))), [(2,)]),
    "sort": lambda: (sort(NUMBERS, *(asc(case(LATER, col(0), lit(at))) for at in range(99))), [(1,), (2,), (None,)]),
    "aggregate": lambda: (
        aggregate(NUMBERS, [], *(measure("count", case(LATER, col(0), lit(at))) for at in range(99))),
        [(2,) * 99],
    ),
    "behind a condition": lambda: (
        project(NUMBERS, *(case(eq(col(0), lit(1)), case(LATER, lit(at), lit(0)), lit(-1)) for at in range(LEVELS))),
        [tuple(range(LEVELS)), (-1,) * LEVELS, (-1,) * LEVELS],
    ),
}


@pytest.mark.parametrize("kind", OVER_MANY_READINGS)
def test_a_clock_that_a_relation_reads_often_is_joined_a_few_times(kind: str) -> None:
    relation, expected = OVER_MANY_READINGS[kind]()
    assert rows(plan(relation), DATA) == expected
    prepared = prepare(plan(relation), TaskOptions())
    nodes = fragments(prepared.physical(shape_of(prepared, DATA)))
    assert sum(node.sql.count("FROM clock)") for node in nodes) <= READINGS + 1


@pytest.mark.parametrize("name", ["and", "or"])
def test_a_deep_connective_runs(name: str) -> None:
    """Each term compares with a number that is not there, so that the last one decides nothing alone."""
    compare = "not_equal" if name == "and" else "equal"
    condition: ir.Expression = call(compare, col(0), lit(-1))
    for at in range(2, LEVELS):
        condition = call(name, condition, call(compare, col(0), lit(-at)))
    expected = [(1,), (2,)] if name == "and" else []
    assert rows(plan(filtered(NUMBERS, condition)), DATA) == expected


def test_a_deep_case_runs() -> None:
    expression: ir.Expression = lit(0)
    for at in range(LEVELS):
        expression = case(eq(col(0), lit(at)), lit(at * 10), expression)
    assert rows(plan(project(NUMBERS, expression)), DATA) == [(10,), (20,), (0,)]


def test_a_deep_condition_of_an_inner_join_runs() -> None:
    other = read("m", k=I64)
    total = deep(lambda below, at: call("add", below, call("subtract", col(1), col(1))))
    relation = join(NUMBERS, other, ir.JoinType.INNER, eq(total, col(1)))
    assert sorted(rows(plan(relation), {**DATA, "m": DATA["n"]})) == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    "in_relation",
    [
        lambda deep: filtered(NUMBERS, call("gt", deep, lit(0))),
        lambda deep: sort(NUMBERS, asc(deep)),
        lambda deep: aggregate(NUMBERS, [deep]),
        lambda deep: aggregate(NUMBERS, [], measure("sum", deep)),
    ],
)
def test_a_deep_expression_runs_in_every_relation(in_relation: Callable[[ir.Expression], ir.Relation]) -> None:
    expression = deep(lambda below, at: call("add", below, lit(0)))
    shallow = in_relation(col(0))
    assert rows(plan(in_relation(expression)), DATA) == rows(plan(shallow), DATA)


def test_a_deep_coalesce_runs() -> None:
    expression: ir.Expression = lit(0)
    for _ in range(LEVELS):
        expression = call("coalesce", col(0), expression)
    assert rows(plan(project(NUMBERS, expression)), DATA) == [(1,), (2,), (0,)]


def test_a_coalesce_whose_last_operand_chooses_among_structs_of_other_names_is_planned() -> None:
    """Columns have the names of fields that their read gives; the results of functions have those of the plan: none."""
    struct = {"struct": {"types": [plans.I64_NULL], "nullability": "NULLABILITY_NULLABLE"}}
    pairs = plans.table(struct, struct)
    pairs["read"]["baseSchema"]["names"] = ["one", "a", "two", "a"]

    def chosen(one: plans.Node, two: plans.Node) -> plans.Node:
        return plans.call("coalesce", one, two, outputType=struct)

    one, two = plans.field(0), plans.field(1)
    projection = plans.project(pairs, chosen(chosen(one, one), chosen(one, two)), common=plans.emit(2))
    prepared = prepare(plans.decode(plans.plan(projection, ["x", "a"])).plan, TaskOptions())
    [pipeline] = prepared.physical({"t": SourceShape(feed=Feed.STREAM, size_class=1)}).pipelines
    assert "coalesce" in pipeline.root.sql


def test_what_a_case_guards_is_not_computed_before_it() -> None:
    """An overflow behind the CASE must not fail rows that the CASE keeps away from it."""
    risky = call("add", deep(lambda below, _: call("add", below, lit(0)), 150), lit(2**63 - 1))
    guarded = case(eq(col(0), lit(99)), risky, lit(7))
    assert rows(plan(project(NUMBERS, guarded)), DATA) == [(7,), (7,), (7,)]


def test_a_deep_expression_that_cannot_be_split_is_refused_with_its_place() -> None:
    relation = project(NUMBERS, case(eq(col(0), lit(99)), deep(lambda below, _: call("add", below, lit(1)))))
    with pytest.raises(PlanError) as refused:
        prepare(plan(relation), TaskOptions())
    (problem,) = refused.value.problems
    assert (problem.reason, problem.place) == ("TOO_DEEP", relation.plan_path)


def test_a_deep_plan_inside_a_subquery_runs() -> None:
    inner = nested(lambda below, at: filtered(below, call("gt", col(0), lit(-at))), 500)
    condition = subquery(ir.SubqueryKind.IN, inner, col(0))
    assert rows(plan(filtered(NUMBERS, condition)), DATA) == [(1,), (2,)]


def test_a_deep_part_that_reads_an_outer_row_is_refused_with_its_place() -> None:
    inner = nested(lambda below, at: filtered(below, call("gt", col(0, outer=1), lit(at))), 400)
    relation = filtered(NUMBERS, subquery(ir.SubqueryKind.EXISTS, inner))
    with pytest.raises(PlanError, match="enclosing"):
        prepare(plan(relation), TaskOptions())
