"""Loops of very many rounds, and gauges: what is kept a round is rows in arrays, and no share is beyond its bounds."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.changes.network import link_queues as queues
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.proto.errors import ExecutionError

from ....searching import SEARCHES
from .running import change, network_of
from .terms import Compose, Distinct, Input, Iterate, Ref, Union

EDGES, SEEDS = Input(0), Input(1)
REACHED = Iterate("x", Distinct(Union((SEEDS, Compose(Ref("x"), EDGES)))))
EVERY_STEP = Iterate("x", Compose(Ref("x"), EDGES), entering=SEEDS)
SHORT = 1_000
LONG = 5_000 if SEARCHES else 3_000


def fed(loop: Iterate, continuous: bool, edges: int) -> Network:
    """A chain of so many edges, to be followed from its beginning."""
    network, _ = network_of(loop, continuous=continuous)
    numbers = np.arange(edges)
    rows = Rows.of_arrays([pa.array(numbers), pa.array(numbers + 1)], edges)
    network.feed(0, 0, Change(rows, np.ones(edges, dtype=np.int64)))
    network.feed(1, 0, change([((0, 0), 1)]))
    network.end()
    return network


@pytest.fixture
def shallow() -> Iterator[None]:
    """So little room on the stack that a call for each round would not fit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(500)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize(
    ("loop", "continuous", "deep"),
    [(EVERY_STEP, False, LONG), (REACHED, True, LONG)],
    ids=["per epoch", "continuous"],
)
def test_a_long_chain_neither_recurses_nor_keeps_objects_for_its_rounds(
    loop: Iterate, continuous: bool, deep: int
) -> None:
    assert fed(loop, continuous, SHORT).run()  # loads what is loaded once
    networks, held = [], []
    for edges in (SHORT, deep):
        gc.collect()
        before = len(gc.get_objects())
        network = fed(loop, continuous, edges)
        assert network.run()
        assert len(network.take()) == edges + 1
        gc.collect()
        held.append(len(gc.get_objects()) - before)
        networks.append(network)
    assert networks[-1].statistics().loops[0].rounds >= deep
    assert held[1] - held[0] < (deep - SHORT) // 2


@pytest.mark.parametrize("continuous", [False, True], ids=["per epoch", "continuous"])
def test_gauges_of_a_loops_operators_are_seen_and_between_0_and_1(
    continuous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "BOUND", 8)
    doubled = Iterate("x", Distinct(Union((SEEDS, Compose(Ref("x"), Union((EDGES, EDGES)))))))
    network, _ = network_of(doubled, continuous=continuous)
    rows = Rows.of_arrays([pa.array([0] * 99), pa.array(range(1, 100))], 99)
    network.feed(0, 0, Change(rows, np.ones(99, dtype=np.int64)))
    network.feed(1, 0, change([((0, 0), 1)]))
    network.end()
    assert network.run()
    said = network.statistics().operators
    assert all(0 < operator.busy <= 1 and 0 <= operator.backpressure <= 1 and operator.health == 1 for operator in said)
    assert any(operator.backpressure > 0 for operator in said)


def test_an_operator_that_has_failed_is_not_healthy() -> None:
    network, _ = network_of(REACHED)
    network.feed(0, 0, change([((0, 1), 1 << 62)]))
    network.feed(1, 0, change([((0, 0), 1)] * 2))
    network.feed(0, 0, change([((0, 1), 1 << 62)]))
    network.end()
    with pytest.raises(ExecutionError, match="beyond 64 bits"):
        network.run()
    assert min(operator.health for operator in network.statistics().operators) == 0
