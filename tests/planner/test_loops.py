"""Loops that one recursive statement runs, and what `explain` says of the others."""

from __future__ import annotations

import json

import pytest

from tidegate.planner import ir
from tidegate.planner.analysis.outer_references import OuterReferences
from tidegate.planner.analysis.recursions import fixed, repeated, with_fixed
from tidegate.planner.changes.change_nodes import RecomputeNode, SourceNode
from tidegate.planner.changes.lower_changes import lower
from tidegate.planner.choose.choose_loops import choose_loops, recursion
from tidegate.planner.ir import types as t
from tidegate.planner.ir.visit import relations
from tidegate.planner.physical.pipelines import Feed, FragmentNode, SourceShape, walk
from tidegate.planner.prepare import Prepared, prepare
from tidegate.planner.rewrite import rewrite
from tidegate.proto.errors import PlanError
from tidegate.proto.values import Loops, TaskOptions

from ..on_channels import on_channels
from .build import (
    F64,
    I64,
    aggregate,
    call,
    col,
    combine,
    cross,
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
    subquery,
    values,
)

EDGES = read("edges", a=I64, b=I64)
BACK = reference(1, I64, I64)
UNION = ir.SetOperation.UNION_DISTINCT


def stepped(back: ir.Relation = BACK, edges: ir.Relation = EDGES) -> ir.Project:
    return project(join(back, edges, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))


def closure(step: ir.Relation | None = None, **how: object) -> ir.Iterate:
    return iterate(1, combine(UNION, EDGES, stepped() if step is None else step), **how)  # type: ignore[arg-type]


def prepared(root: ir.Relation, **options: object) -> Prepared:
    return prepare(plan(root), TaskOptions(**options), ())  # type: ignore[arg-type]


def rounds(root: ir.Relation, **options: object) -> ir.Rounds:
    """The loop at the root, as what goes round by round."""
    rounds_relation = choose_loops(plan(root), TaskOptions(**options)).root  # type: ignore[arg-type]
    assert isinstance(rounds_relation, ir.Rounds)
    return rounds_relation


def fragment(root: ir.Relation, channels: int = 1) -> FragmentNode:
    prepared_plan = prepared(root, **on_channels(channels))
    shape = {source.name: SourceShape(feed=Feed.STREAM, size_class=1 << 12) for source in prepared_plan.sources}
    fragment_node = prepared_plan.physical(shape).pipelines[-1].root
    assert isinstance(fragment_node, FragmentNode)
    return fragment_node


# ------------------------------------------------------------------------------------------------------- what is taken


COPYING = (
    BACK,
    filtered(BACK, call("gt", call("add", col(0), lit(1)), lit(5))),
    project(cross(BACK, EDGES), col(0), col(3)),
    project(BACK, col(1), lit(7)),
    project(project(BACK, col(1), call("add", col(0), lit(1))), col(0), col(0)),
    project(join(EDGES, BACK, ir.JoinType.INNER, call("lt", col(0), col(2))), call("add", col(0), lit(1)), col(3)),
    combine(ir.SetOperation.UNION_ALL, BACK, stepped()),
)
"""Every kind of step that one recursive statement runs."""


@pytest.mark.parametrize("step", COPYING)
def test_a_step_copies_what_goes_round(step: ir.Relation) -> None:
    (bound,) = fragment(closure(step)).loops
    assert (bound.loop, bound.name) == (1, "loop1")


def test_a_plan_may_have_several_loops() -> None:
    other = iterate(2, combine(UNION, EDGES, reference(2, I64, I64)))
    fragment_node = fragment(combine(UNION, closure(), other))
    nodes = [stream.node for stream in fragment_node.streams]
    assert [node.result.loop for node in nodes if isinstance(node, FragmentNode) and node.result] == [1, 2]


def test_explain_shows_the_loop_and_how_it_is_run() -> None:
    text = prepared(closure()).explain().text
    assert "loop 'loop1', one recursive statement" in text
    assert "what came back to loop 'loop1'" in text
    assert json.loads(prepared(closure()).explain().json)["pipelines"][0]["start"] == "seal"


# --------------------------------------------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        (closure(max_rounds=5), "the loop has a limit on rounds"),
        (iterate(1, combine(ir.SetOperation.UNION_ALL, EDGES, stepped())), "body is not a UNION DISTINCT"),
        (
            iterate(1, filtered(combine(UNION, EDGES, BACK), eq(col(0), col(1)))),
            "body is not a UNION DISTINCT",
        ),
        (closure(project(BACK, col(0), call("add", col(1), lit(1)))), "column 1 is computed from the loop's rows"),
        (closure(stepped(edges=reference(1, I64, I64))), "refers to the loop 2 times"),
        (closure(fetch(BACK, 3)), "kind fetch stands above a reference"),
        (closure(aggregate(BACK, (col(0),), measure("min", col(1)))), "kind aggregate stands above a reference"),
        (closure(combine(ir.SetOperation.MINUS_PRIMARY, BACK, EDGES)), "kind set stands above a reference"),
        (closure(join(BACK, EDGES, ir.JoinType.LEFT_ANTI, eq(col(0), col(2)))), "kind left_anti stands above"),
        (
            closure(filtered(BACK, subquery(ir.SubqueryKind.EXISTS, values([I64], [1])))),
            "a subquery stands above a reference",
        ),
        (
            iterate(1, combine(UNION, read("lists", a=t.List(element=I64)), reference(1, t.List(element=I64)))),
            "whose equal values may differ",
        ),
    ],
)
def test_a_loop_that_means_something_else_in_sql_goes_round_by_round_and_says_why(loop: ir.Iterate, why: str) -> None:
    assert why in rounds(loop).why


def test_the_reason_says_where_it_is() -> None:
    limited = fetch(BACK, 3)
    assert rounds(closure(limited)).why.endswith(f"(at {limited.plan_path})")


def test_an_inner_loop_that_reads_the_outer_one_is_a_part_of_its_body() -> None:
    inner = iterate(2, combine(UNION, BACK, reference(2, I64, I64)))
    assert [
        relation.loop for relation in relations(rounds(closure(inner)).iterate) if isinstance(relation, ir.Iterate)
    ] == [1, 2]


def test_the_option_asks_for_rounds_where_one_statement_would_do() -> None:
    assert 'loops="general"' in rounds(closure(), loops=Loops.GENERAL).why


def test_what_reads_nothing_of_the_loop_is_an_input_of_it() -> None:
    wide = filtered(EDGES, call("gt", col(0), lit(5)))
    loop = rounds(iterate(1, combine(UNION, wide, stepped()), read("seed", a=I64, b=I64), max_rounds=5))
    assert [type(child).__name__ for child in loop.inputs] == ["Filter", "Read", "Read"]
    leaves = [relation.port for relation in relations(loop.iterate) if isinstance(relation, ir.LoopInput)]
    assert sorted(leaves) == [0, 1, 2]


def test_what_feeds_a_loop_is_made_by_fragments() -> None:
    prepared_plan = prepared(closure(), loops=Loops.GENERAL)
    shape = {source.name: SourceShape(feed=Feed.FILES, size_class=1 << 12) for source in prepared_plan.sources}
    (pipeline,) = prepared_plan.physical(shape).pipelines
    assert [type(node).__name__ for node in walk(pipeline.root)] == ["SelectNode", "RoundsNode", "FragmentNode"]


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (closure(fetch(BACK, 3)), "LIMIT_WITHOUT_SORT"),
    ],
)
def test_what_rounds_cannot_have_is_refused_when_the_plan_is_read(loop: ir.Iterate, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        prepared(loop)
    assert [problem.reason for problem in caught.value.problems] == [reason]


def test_explain_says_that_a_loop_goes_round_by_round_and_why() -> None:
    text = prepared(closure(max_rounds=5)).explain().text
    assert "loop 'loop1', round by round: the loop has a limit on rounds" in text


def test_explain_shows_the_operators_of_a_loop_that_goes_round_by_round_below_it() -> None:
    explained = prepared(closure(max_rounds=5)).explain()
    lines = [line.split("  [")[0] for line in explained.text.splitlines()]
    at = lines.index("      1 loop loop1")
    assert lines[at:] == [
        "      1 loop loop1",
        "      2 distinct, 2 inputs, blocks",
        "        3 input 0 of the loop",
        "        4 join on c1 = c0",
        "          5 what has come back in loop 1",
        "          6 input 0 of the loop",
        "    fragment 3, read edges (a, b)",
        "  fragment 3, row-wise",
        "    read edges (a, b)",
    ]
    relations = json.loads(explained.json)["pipelines"][0]["fragments"][1]["relations"]
    assert [(operator["number"], operator["inputs"]) for operator in relations[0]["operators"]] == [
        (1, [2]),
        (2, [3, 4]),
        (3, []),
        (4, [5, 6]),
        (5, []),
        (6, []),
    ]
    assert "operators" not in relations[1]


# ------------------------------------------------------------------------------------------ rewrites around loops


def test_what_reads_a_loop_is_never_shared_out_of_it() -> None:
    twice = aggregate(BACK, (col(0),), measure("count", col(1)))
    same = aggregate(reference(1, I64, I64), (col(0),), measure("count", col(1)))
    loop = iterate(1, combine(UNION, EDGES, combine(ir.SetOperation.UNION_ALL, twice, same)))
    assert rewrite(plan(loop)).shared == ()


def test_what_reads_nothing_of_a_loop_is_shared_also_where_it_stands_inside() -> None:
    counts = [aggregate(EDGES, (col(0),), measure("count", col(1))) for _ in range(2)]
    loop = iterate(1, combine(UNION, counts[0], project(stepped(edges=counts[1]), col(0), col(1))))
    assert len(rewrite(plan(loop)).shared) == 1


def test_an_aggregate_is_not_reduced_to_keys_that_a_loop_brings() -> None:
    counts = aggregate(EDGES, (col(0),), measure("count", col(1)))
    few = filtered(BACK, eq(col(0), lit(1)))
    loop = iterate(1, combine(UNION, EDGES, stepped(back=few, edges=counts)))
    assert rewrite(plan(loop)).shared == ()


def test_all_columns_go_round_whatever_is_used_outside() -> None:
    root = rewrite(plan(project(closure(), col(0)))).root
    (loop,) = (relation for relation in relations(root) if isinstance(relation, ir.Iterate))
    assert len(loop.schema) == 2
    assert all(len(relation.schema) == 2 for relation in relations(root) if isinstance(relation, ir.Reference))


def test_what_static_tables_feed_is_kept_but_not_what_came_back() -> None:
    prepared_plan = prepare(
        plan(iterate(1, combine(UNION, stepped(), read("fed", a=I64, b=I64)))), TaskOptions(), ("edges",)
    )
    assert prepared_plan.division.kept == {}
    assert len(prepare(plan(combine(UNION, closure(), EDGES)), TaskOptions(), ()).division.kept) == 0
    whole = combine(UNION, closure(), read("fed", a=I64, b=I64))
    assert len(prepare(plan(whole), TaskOptions(), ("edges",)).division.kept) == 1


def test_a_relation_reads_the_loops_that_it_is_inside_of() -> None:
    loop = closure()
    assert OuterReferences().of(loop).loops == frozenset()
    assert OuterReferences().of(loop.body).loops == {1}


def test_the_parts_of_a_step_that_stay_the_same_can_be_replaced() -> None:
    statement = recursion(closure(), 10, OuterReferences())
    assert isinstance(statement, ir.Recursion)
    (step,) = statement.steps
    assert [type(relation).__name__ for relation in repeated(step)] == ["Project", "Join", "Reference"]
    assert list(fixed(step)) == [EDGES]
    other = read("others", a=I64, b=I64)
    changed = with_fixed(statement, {EDGES: other})
    assert list(fixed(changed.steps[0])) == [other]
    assert changed.base == (other,)


# ------------------------------------------------------------------------------------------------- several channels


@pytest.mark.parametrize("channels", [2, 3])
def test_a_loop_runs_on_one_channel_and_what_feeds_it_on_all(channels: int) -> None:
    wide = filtered(EDGES, call("gt", call("add", col(0), col(1)), lit(5)))
    loop = iterate(1, combine(UNION, wide, stepped()))
    prepared_plan = prepared(loop, **on_channels(channels))
    shape = {source.name: SourceShape(feed=Feed.STREAM, size_class=1 << 23) for source in prepared_plan.sources}
    *_, last = prepared_plan.physical(shape).pipelines
    assert last.channels == 1
    assert isinstance(last.root, FragmentNode)
    assert last.root.loops


def test_floats_go_round_with_one_bit_pattern_for_each_number() -> None:
    loop = iterate(1, combine(UNION, read("edges", a=F64), reference(1, F64)))
    assert "isnan" in fragment(loop).sql


# ------------------------------------------------------------------------------------------------- over changes


def test_over_changes_a_recursive_statement_is_computed_again_from_all_that_it_reads() -> None:
    seed = read("seed", a=I64, b=I64)
    chosen = choose_loops(plan(closure(entering=seed)), TaskOptions())
    root = lower(chosen, 1_000).root
    assert isinstance(root, RecomputeNode)
    assert [child.source for child in root.inputs if isinstance(child, SourceNode)] == ["edges", "seed"]
    assert "UNION" in root.sql
