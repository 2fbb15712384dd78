"""Loops that are computed anew in every round, against what a loop means, taken literally."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from benchmarks import loop_plans
from tidegate.planner import ir
from tidegate.planner.changes.change_nodes import LoopNode
from tidegate.planner.changes.lower_changes import lower_loop
from tidegate.planner.choose.choose_loops import choose_loops
from tidegate.proto.values import TaskOptions

from ..on_channels import on_channels
from ..planner.build import (
    F64,
    I64,
    aggregate,
    call,
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
from ..planner.relations.naive import Row
from ..planner.running import Form
from ..searching import tries
from .test_recursive_statements import expected, texts
from .test_rounds import run_it

EDGES = read("edges", a=I64, b=I64)
NODES = read("nodes", a=I64, b=F64)
REF = reference(1, I64, F64)
BOTH = reference(1, I64, F64)


def onward(half: ir.Relation) -> ir.Relation:
    """Half of a rank along each edge: floats that any order adds up to the same."""
    met = join(half, EDGES, ir.JoinType.INNER, eq(col(0), col(2)))
    return project(met, col(3), call("multiply", col(1, F64), lit(0.5, F64)))


def summed(*parts: ir.Relation) -> ir.Relation:
    every = combine(ir.SetOperation.UNION_ALL, *parts) if len(parts) > 1 else parts[0]
    return aggregate(every, (col(0),), measure("sum", col(1, F64)))


def returned(body: ir.Relation, entering: ir.Relation | None = None, rounds: int = 4) -> ir.Iterate:
    return iterate(1, body, entering, max_rounds=rounds, at_limit=ir.AtLimit.RETURN)


def is_whole(loop: ir.Iterate) -> bool:
    chosen = choose_loops(plan(loop), TaskOptions()).root
    assert isinstance(chosen, ir.Rounds)
    lowered = lower_loop(chosen)
    return isinstance(lowered, LoopNode) and lowered.whole


LOOPS = {
    "ranks": returned(summed(NODES, onward(REF))),
    "what enters is added in every round": returned(summed(onward(REF)), NODES),
    "two references": returned(summed(NODES, onward(REF), onward(BOTH))),
    "a filter on what came back": returned(
        summed(NODES, onward(filtered(REF, call("gt", col(1, F64), lit(1.0, F64)))))
    ),
    "what comes to rest": returned(summed(NODES, filtered(REF, call("lt", col(1, F64), lit(0.0, F64)))), rounds=9),
}


@pytest.mark.parametrize("name", LOOPS)
@settings(max_examples=tries(8))
@given(data=st.data())
def test_rounds_that_are_computed_anew_are_what_the_loop_means(name: str, data: st.DataObject) -> None:
    number = st.none() | st.integers(0, 3)
    floats = st.none() | st.sampled_from([0.0, 1.0, 4.0, -2.0, float("nan"), float("inf")])
    rows: dict[str, list[Row]] = {
        "edges": data.draw(st.lists(st.tuples(number, number), max_size=8)),
        "nodes": data.draw(st.lists(st.tuples(number, floats), max_size=5)),
    }
    form = Form(batch=data.draw(st.sampled_from([None, 2])), channels=data.draw(st.sampled_from([1, 2])))
    assert is_whole(LOOPS[name])
    assert texts(run_it(LOOPS[name], rows, form)) == texts(expected(LOOPS[name], rows))


@pytest.mark.parametrize(
    "loop",
    [
        iterate(1, summed(NODES, onward(REF)), max_rounds=4),
        iterate(1, summed(NODES, onward(REF))),
        returned(combine(ir.SetOperation.UNION_DISTINCT, NODES, onward(REF))),
        returned(combine(ir.SetOperation.UNION_ALL, summed(NODES), onward(REF))),
        returned(aggregate(combine(ir.SetOperation.UNION_ALL, NODES, onward(REF)), (col(0),), measure("min", col(1)))),
    ],
    ids=["an error at the limit", "no limit", "distinct rows", "sums beside what came back", "a least value"],
)
def test_other_loops_follow_what_changes(loop: ir.Iterate) -> None:
    assert not is_whole(loop)


RANKS = loop_plans.ranks(0.5, 40).plan
TWO = {"edges": pa.table({"a": [0, 1], "b": [1, 0]}), "nodes": pa.table({"a": [0, 1], "jump": [0.25, 0.25]})}


def test_explain_says_that_a_loop_is_computed_from_all_rows_and_why() -> None:
    with tidegate.local() as client:
        text = client.explain(RANKS).text
    assert (
        "recompute, 3 inputs, blocks; computed again from all rows: floats are added up in each of a given number"
        in text
    )


def test_statistics_count_its_rounds_and_a_loop_at_rest_ends_before_its_last() -> None:
    with tidegate.local() as client, client.create_task(loop_plans.ranks(0.5, 4_000).plan) as task:
        assert task.run_epoch(TWO).table().column(1).to_pylist() == [0.5, 0.5]
        [loop] = task.info().statistics.loops
    assert (loop.name, loop.most_rows_a_round, loop.prepares_sent) == ("ranks", 2, 0)
    assert 50 < loop.rounds < 60


@pytest.mark.parametrize(
    ("options", "reason", "message"),
    [
        ({"loop_rows": 1}, "LOOP_ROWS", "loop 'ranks' has 2 rows after round 1; at most 1 are allowed"),
        ({"loop_seconds": 1e-9}, "LOOP_SECONDS", "loop 'ranks' has not ended after 1e-09 seconds"),
    ],
)
def test_its_limits_are_errors_that_name_it(options: dict[str, float], reason: str, message: str) -> None:
    with (
        tidegate.local() as client,
        client.create_task(RANKS, **options) as task,
        pytest.raises(tidegate.TaskFailed, match=message) as caught,
    ):
        task.run_epoch(TWO).table()
    assert caught.value.reason == reason


def test_what_it_keeps_counts_against_its_memory() -> None:
    nodes = np.arange(1_500_000)
    many = pa.table({"a": nodes % 1_000, "b": nodes})
    with (
        tidegate.local() as client,
        client.create_task(RANKS, memory_limit=32 << 20) as task,
        pytest.raises(tidegate.TaskFailed, match=r"loop 'ranks' keeps .* bytes") as caught,
    ):
        task.run_epoch({**TWO, "edges": many}).table()
    assert caught.value.reason == "MEMORY_LIMIT"


def test_a_task_gives_the_same_bits_in_every_epoch_and_on_any_number_of_channels() -> None:
    graph = loop_plans.random_graph(300, 3_000)
    tables = {"edges": graph, "nodes": pa.table({"a": range(300), "jump": [0.001] * 300})}
    results = set()
    with tidegate.local() as client:
        for channels in (1, 2):
            with client.create_task(loop_plans.ranks(0.85, 6).plan, **on_channels(channels)) as task:
                results |= {tuple(task.run_epoch(tables).table().column(1).to_pylist()) for _ in range(2)}
    assert len(results) == 1
