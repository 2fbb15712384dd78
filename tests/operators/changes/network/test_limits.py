"""Loops that do not end by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.network.channel_nodes import OperatorNode
from tidegate.operators.changes.network.network_graph import Limits
from tidegate.operators.changes.network.rounds_and_limits import LoopRounds
from tidegate.operators.changes.network.schedule import InOrder, Watched
from tidegate.operators.changes.values.change import Change
from tidegate.proto.errors import ExecutionError

from .running import change, feed, network_of, run_epochs
from .terms import PAIRS, Compose, Distinct, Input, Iterate, OnLimit, Ref, Union, answer

E, S = Input(0), Input(1)
CHAIN = [(1, (0, 0), 1), *[(0, (at, at + 1), 1) for at in range(5)]]
CYCLE = [(1, (0, 0), 1), (0, (0, 1), 1), (0, (1, 0), 1)]


def reached(rounds: int | None = None, on_rounds: OnLimit = OnLimit.ERROR) -> Iterate:
    return Iterate("reached", Distinct(Union((S, Compose(Ref("reached"), E)))), rounds=rounds, on_rounds=on_rounds)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_loop_that_would_go_on_beyond_its_rounds_is_an_error(channels: int, continuous: bool) -> None:
    network, _ = network_of(reached(5), channels=channels, continuous=continuous)
    feed(network, CHAIN)
    with pytest.raises(
        ExecutionError, match=r"loop 'reached' has not ended after 5 rounds: round 6 would change 1 of its"
    ) as error:
        network.run()
    assert error.value.reason == "LOOP_ROUNDS"


@pytest.mark.parametrize("continuous", [False, True])
def test_a_loop_that_needs_all_its_rounds_is_none(continuous: bool) -> None:
    network, _ = network_of(reached(6), continuous=continuous)
    (largest,) = run_epochs(network, None, [CHAIN])
    assert len(largest) == 6


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("rounds", range(8))
def test_a_loop_may_return_what_it_has_then(rounds: int, continuous: bool) -> None:
    loop = reached(rounds, OnLimit.RETURN)
    network, _ = network_of(loop, continuous=continuous)
    edges = Counter({row: 1 for port, row, _ in CHAIN if port == 0})
    assert run_epochs(network, None, [CHAIN]) == [answer(loop, [edges, Counter({(0, 0): 1})])]


def test_a_body_is_not_asked_for_what_nobody_wants() -> None:
    endless = Iterate("endless", Union((Ref("endless"), Ref("x"))))
    network, _ = network_of(Iterate("x", endless, entering=S, rounds=1, on_rounds=OnLimit.RETURN))
    assert run_epochs(network, None, [CHAIN]) == [{(0, 0): 1}]


def test_what_is_beyond_the_limit_can_be_undone_later() -> None:
    network, _ = network_of(reached(4, OnLimit.RETURN))
    first, second, third = run_epochs(network, None, [CHAIN, [(0, (2, 3), -1)], [(0, (2, 3), 1)]])
    assert sorted(first) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert second == {(0, 3): -1}
    assert third == {(0, 3): 1}


def test_a_union_all_over_a_cycle_ends_at_its_rounds() -> None:
    network, _ = network_of(Iterate("all", Union((S, Compose(Ref("all"), E))), rounds=100, on_rounds=OnLimit.ERROR))
    feed(network, CYCLE)
    with pytest.raises(ExecutionError, match=r"loop 'all' .* round 101 would change 1 of its 100 rows "):
        network.run()


@pytest.mark.parametrize("continuous", [False, True])
def test_a_limit_on_rows_counts_weights(continuous: bool) -> None:
    loop = Iterate("all", Union((S, Compose(Ref("all"), E))), rows=50)
    network, _ = network_of(loop, continuous=continuous)
    feed(network, CYCLE)
    with pytest.raises(
        ExecutionError, match=r"loop 'all' has 51 rows \(weights counted\) after round 51; its limit is 50"
    ):
        network.run()


def test_rows_of_a_later_round_that_are_not_yet_undone_are_not_counted_against_the_limit() -> None:
    loop = Iterate("x", Distinct(Union((S, Compose(Ref("x"), E)))), rows=6)
    network, _ = network_of(loop)
    short_cuts = [(0, (0, at), 1) for at in range(2, 6)]
    assert run_epochs(network, None, [CHAIN, short_cuts])[1] == {}


@pytest.mark.parametrize("continuous", [False, True])
def test_a_weight_that_overflows_is_an_error(continuous: bool) -> None:
    loop = Iterate("twice", Union((S, Ref("twice"), Ref("twice"))))
    network, _ = network_of(loop, continuous=continuous)
    feed(network, CYCLE)
    with pytest.raises(ExecutionError, match=r"loop 'twice' cannot go on in round 6\d, with \d+ rows") as error:
        network.run()
    assert error.value.reason == "WEIGHT_OVERFLOW"


def test_a_limit_on_time_ends_a_loop() -> None:
    network, _ = network_of(Iterate("all", Union((S, Compose(Ref("all"), E))), seconds=0.05))
    feed(network, CYCLE)
    with pytest.raises(ExecutionError, match=r"loop 'all' has not ended after 0.05 seconds: round \d+ changes"):
        network.run()


def test_an_error_shows_in_the_operators_health() -> None:
    network, _ = network_of(Distinct(Union((S, S))))
    feed(network, [(1, (0, 0), (1 << 62)), (1, (0, 0), (1 << 62))])
    with pytest.raises(ExecutionError, match="distinct: the weights of one row sum to"):
        network.run()
    assert [one.health for one in network.statistics().operators] == [1.0, 0.0]


class Endless(ChangeOperator):
    """Makes more and more of whatever it is given."""

    schema = PAIRS

    def receive(self, port: int, change: Change) -> Iterator[Change]:
        while True:
            yield change


def test_a_single_step_can_be_stopped_between_its_parts() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 5:
            raise ExecutionError("interrupted", reason="INTERRUPTED")

    node = OperatorNode(Endless(), "here", None, Watched(check, check, lambda _: True, lambda _: None))
    with pytest.raises(ExecutionError, match="interrupted"):
        node.receive(0, change([((1, 2), 1)]))
    assert node.rows_out == 5


def test_a_single_step_ends_with_its_loops_time() -> None:
    limits = Limits(seconds=1e-9)
    progress = LoopRounds("endless", PAIRS, limits, channels=1, outer=0, counted=False)
    progress.begin()
    node = OperatorNode(Endless(), "here", progress, InOrder())
    with pytest.raises(ExecutionError, match=r"loop 'endless' has not ended after 1e-09 seconds"):
        node.receive(0, change([((1, 2), 1)]))
