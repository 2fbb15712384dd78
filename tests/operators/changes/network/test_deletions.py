"""A continuous loop after a deletion says, and keeps, what a fresh one would."""

from __future__ import annotations

from itertools import product

import pytest

from ....searching import one_of_each
from .per_key import Pair
from .running import Changes, check_continuous, network_of, run_epochs
from .terms import Compose, Distinct, Input, Iterate, Ref, Union

EDGES, SEEDS = Input(0), Input(1)
X = Ref("x")
REACHED = Iterate("x", Distinct(Union((SEEDS, Compose(X, EDGES)))))
CLOSURE = Iterate("x", Distinct(Union((EDGES, Compose(X, X)))))
ROOT = (1, (0, 0), 1)

LOOPS = {"linear": REACHED, "non-linear": CLOSURE}
CASES: dict[str, list[Changes]] = {}


def edges(*pairs: Pair, weight: int = 1) -> list[tuple[int, Pair, int]]:
    return [(0, pair, weight) for pair in pairs]


def gone(*pairs: Pair) -> list[tuple[int, Pair, int]]:
    return edges(*pairs, weight=-1)


CASES["the edge into a cycle"] = [[ROOT, *edges((0, 1), (1, 2), (2, 1))], gone((0, 1))]
CASES["a component cut off its root"] = [[ROOT, *edges((0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (4, 2))], gone((0, 1))]
CASES["one of two parallel paths"] = [
    [ROOT, *edges((0, 1), (1, 3), (0, 2), (2, 3), (3, 4))],
    gone((1, 3)),
    gone((2, 3)),
]
CASES["a self-loop"] = [[ROOT, *edges((0, 1), (1, 1))], gone((0, 1)), edges((0, 1)), gone((1, 1))]
CASES["a duplicate edge"] = [[ROOT, *edges((0, 1), (0, 1), (1, 2))], gone((0, 1)), gone((0, 1))]
CASES["insert and delete in one epoch"] = [
    [ROOT, *edges((0, 1))],
    [*edges((1, 2), (2, 3)), *gone((1, 2))],
    gone((2, 3)),
]
CASES["a subtree under another parent"] = [
    [ROOT, *edges((0, 1), (0, 2), (1, 3), (3, 4))],
    [*gone((1, 3)), *edges((2, 3))],
]
CASES["a short cut that comes and goes"] = [[ROOT, *edges((0, 1), (1, 2), (2, 3), (3, 4))], edges((0, 3)), gone((0, 3))]
CASES["nothing"] = [[ROOT, *edges((0, 1))], [], gone((0, 1)), []]


@pytest.mark.parametrize(
    ("case", "loop", "channels"),
    one_of_each((case, *how) for case in CASES for how in product(LOOPS, [1, 2, 3])),
)
def test_a_loop_stays_right_when_what_goes_is(case: str, loop: str, channels: int) -> None:
    for seed in (None, 1, 2):
        check_continuous(LOOPS[loop], CASES[case], channels=channels, seed=seed)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_a_cycle_cut_off_its_root_ends_in_a_few_rounds(channels: int, seed: int) -> None:
    network, seeded = network_of(REACHED, channels=channels, seed=seed)
    run_epochs(network, seeded, [[ROOT, *edges((0, 1), (1, 2), (2, 1))]])
    before = network.statistics().loops[0].rounds
    run_epochs(network, seeded, [gone((0, 1))])
    assert network.statistics().loops[0].rounds - before <= 6
