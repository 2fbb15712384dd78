"""Loops in loops, six deep: the same answer, for work that does not multiply where nothing has to be done again.

Class of bug: what asks a loop asks the loop inside of it more than once, at every level.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pytest

from tidegate.operators.changes.network import build
from tidegate.operators.changes.network import network_graph as graph
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.values.change import Change
from tidegate.planner import ir

from ..continuous.histories import table
from ..continuous.network import bare
from ..planner.build import I64, col, combine, eq, iterate, join, plan, project, read, reference
from ..planner.running import Form
from ..searching import SEARCHES
from .test_rounds import run_it

DEPTH: Final = 7 if SEARCHES else 6
EDGES: Final = read("edges", a=I64, b=I64)
ROWS: Final = [(at, at + 1) for at in range(8)]
CLOSURE: Final = [(one, other) for one in range(9) for other in range(one + 1, 9)]


def came_back(number: int) -> ir.Reference:
    return reference(number, I64, I64)


def step(paths: ir.Relation) -> ir.Relation:
    return project(join(paths, EDGES, ir.JoinType.INNER, eq(col(1), col(2))), col(0), col(3))


def looped(number: int, *parts: ir.Relation) -> ir.Relation:
    body = replace(combine(ir.SetOperation.UNION_DISTINCT, *parts), schema=(I64, I64))
    return replace(iterate(number, body), schema=(I64, I64))


def seeded(number: int = 1) -> ir.Relation:
    """Each loop starts from what came back to the one around it; the innermost one goes along the edges."""
    inner = seeded(number + 1) if number < DEPTH else step(came_back(number))
    return looped(number, EDGES if number == 1 else came_back(number - 1), inner)


def crowded(number: int = 1) -> ir.Relation:
    """Each body goes along the edges from what came back to every loop around."""
    inner = (crowded(number + 1),) if number < DEPTH else ()
    return looped(number, EDGES, *(step(came_back(depth)) for depth in range(1, number + 1)), *inner)


def across(number: int = 1) -> ir.Relation:
    """Each loop reads its own rows, those of the loop around it and those of the one inside of it."""
    inner = across(number + 1) if number < DEPTH else came_back(number)
    around = (step(came_back(number - 1)),) if number > 1 else ()
    return looped(number, EDGES, came_back(number), step(inner), *around)


SHAPES: Final = pytest.mark.parametrize("root", [seeded(), crowded(), across()], ids=["seeded", "crowded", "across"])


def over_edges(root: ir.Relation, channels: int = 1) -> Network:
    network, _ = bare(plan(root), channels)
    [batch] = table(ROWS, pa.schema([("a", pa.int64()), ("b", pa.int64())])).to_batches()
    network.feed(0, 0, Change.of_batch(batch))
    network.end()
    assert network.run()
    return network


@SHAPES
def test_the_answer_is_that_of_one_loop(root: ir.Relation) -> None:
    change = over_edges(root).take()
    assert (
        list(zip(*(column.to_pylist() for column in change.rows.to_arrays([pa.int64()] * 2)), strict=True)) == CLOSURE
    )
    assert run_it(root, {"edges": ROWS}, Form()) == CLOSURE


@SHAPES
@pytest.mark.parametrize("channels", [1, 2])
def test_a_loop_asks_once_for_each_round_and_for_each_time_it_is_asked(root: ir.Relation, channels: int) -> None:
    loops = sorted(over_edges(root, channels).statistics().loops, key=lambda loop: loop.path.count("/"))
    asked = 1  # by the barrier; an inner one by that and by each prepare of the one around it
    for loop in loops:
        assert loop.prepares_resent <= channels * 2
        assert loop.prepares_sent - loop.prepares_resent == asked + loop.rounds
        asked = loop.prepares_sent + 1


@SHAPES
def test_rounds_and_rows_double_at_most_with_each_level(root: ir.Relation) -> None:
    """Eight edges are nine rounds of one loop; every round of a loop may ask the loop inside of it twice."""
    statistics = over_edges(root).statistics()
    loops = sorted(statistics.loops, key=lambda loop: loop.path.count("/"))
    assert len(loops) == DEPTH
    for level, loop in enumerate(loops):
        assert loop.rounds <= 9 * 2**level
    assert sum(operator.touched for operator in statistics.operators) <= 1_000 * 9 * 2 ** (DEPTH - 1)


@SHAPES
def test_a_graph_is_looked_through_once(root: ir.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[graph.Vertex] = []
    links_of = graph.links_of

    def counted(vertex: graph.Vertex) -> tuple[graph.Link, ...]:
        looked.append(vertex)
        return links_of(vertex)

    monkeypatch.setattr(graph, "links_of", counted)
    monkeypatch.setattr(build, "links_of", counted)
    bare(plan(root), 2)
    assert len(looked) <= 4 * len(set(map(id, looked)))
