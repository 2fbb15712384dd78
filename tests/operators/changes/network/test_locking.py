"""The iteration-locking protocol: what it promises under any order of work, and that each of its parts is needed."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegate.operators.changes.network.link_messages import Prepare
from tidegate.operators.changes.network.locking import Locking, Phase
from tidegate.operators.changes.network.network import Network

from ....searching import tries
from .per_key import Bag, Pair
from .running import bag, change, feed, network_of, run_epochs
from .terms import Compose, Distinct, Input, Iterate, Ref, Term, Union, answer, summed

E, S = Input(0), Input(1)
REACHED = Iterate("x", Distinct(Compose(Ref("x"), E)), entering=S, rounds=None)
BODY_READS_ALL = Iterate("x", Distinct(Union((S, Compose(Ref("x"), E)))))
NESTED = Iterate("x", Distinct(Union((S, Iterate("y", Distinct(Union((Compose(Ref("x"), E), Compose(Ref("y"), E)))))))))
PATH = [(0, (0, 1), 1), (0, (1, 2), 1), (0, (2, 3), 1)]
FIRST = [(1, (0, 0), 1), *PATH]


class NeverSendsAgain(Locking):
    def moved(self) -> None:
        pass


class IgnoresMarks(Locking):
    def marks(self, prepare: Prepare) -> bool:
        return False


class HoldsNothing(Locking):
    def holds(self) -> bool:
        return False


def with_slow_edges(locking: type[Locking]) -> Bag:
    """What enters has ended before the edges, which the body reads, arrive."""
    network, _ = network_of(REACHED, locking=locking)
    network.feed(1, 0, change([((0, 0), 1)]))
    network.end(1)
    assert not network.run(), "the epoch ended before all its input had"
    for _, row, weight in PATH:
        network.feed(0, 0, change([(row, weight)]))
        network.run()
    network.end(0)
    assert network.run(), "the epoch does not end"
    return bag(network.take())


def with_the_next_epoch_behind(locking: type[Locking]) -> list[Bag]:
    """While the loop waits for the first epoch's edges, the second epoch's seed is there already."""
    network, _ = network_of(REACHED, locking=locking)
    network.feed(1, 0, change([((0, 0), 1)]))
    network.end(1)
    network.feed(1, 0, change([((9, 1), 1)]))
    network.run()
    for _, row, weight in PATH:
        network.feed(0, 0, change([(row, weight)]))
    network.end(0)
    assert network.run()
    first = bag(network.take())
    network.end()
    assert network.run()
    return [first, bag(network.take())]


def test_a_loop_waits_for_a_slow_input_of_its_body() -> None:
    assert with_slow_edges(Locking) == Counter({(0, 0): 1, (0, 1): 1, (0, 2): 1, (0, 3): 1})


def test_without_sending_the_prepare_again_the_epoch_never_ends() -> None:
    with pytest.raises(AssertionError, match="does not end"):
        with_slow_edges(NeverSendsAgain)


def test_without_marks_the_epoch_ends_before_its_input() -> None:
    with pytest.raises(AssertionError, match="ended before all its input"):
        with_slow_edges(IgnoresMarks)


def test_what_enters_behind_the_barrier_belongs_to_the_next_epoch() -> None:
    first, second = with_the_next_epoch_behind(Locking)
    assert set(first) == {(0, 0), (0, 1), (0, 2), (0, 3)}
    assert set(second) == {(9, 1), (9, 2), (9, 3)}


def test_without_holding_what_enters_the_next_epoch_gets_into_this_one() -> None:
    first, _ = with_the_next_epoch_behind(HoldsNothing)
    assert (9, 1) in first


class Watched(Locking):
    """Sees to it that no barrier passes with a row in flight."""

    network: Network | None = None
    barriers = 0

    def came_back(self, prepare: Prepare) -> None:
        super().came_back(prepare)
        if self.phase is Phase.BARRIER:
            Watched.barriers += 1
            self._see_to_it()

    def passed(self) -> None:
        """Whatever was ahead of the barrier in the body has come back by now."""
        self._see_to_it()
        super().passed()

    def _see_to_it(self) -> None:
        assert self.network is not None
        assert self._loop.next_time(None, ()) is None, "a row waits for its round"
        for operator in self.network.operators():
            assert operator.due() is None, "something in a body is due"


@pytest.mark.parametrize("term", [REACHED, BODY_READS_ALL, NESTED], ids=["entering", "dummy read", "nested"])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_no_order_of_work_loses_a_row_hangs_or_asks_without_end(term: Term, channels: int) -> None:
    epochs = [FIRST, [(0, (3, 1), 1), (0, (0, 1), -1), (1, (2, 2), 1)], [(0, (0, 1), 1), (0, (3, 1), -1)], []]
    totals, answers = [Counter[Pair](), Counter[Pair]()], []
    for epoch in epochs:
        for port, row, weight in epoch:
            totals[port][row] += weight
        answers.append(answer(term, totals))
    for seed in range(tries(12)):
        network, seeded = network_of(term, channels=channels, seed=seed, locking=Watched)
        Watched.network = network
        integrated: Bag = Counter()
        for epoch, expected in zip(epochs, answers, strict=True):
            integrated = summed([integrated, *run_epochs(network, seeded, [epoch])])
            assert integrated == expected
        events = len(epochs)
        for loop in network.statistics().loops:  # the outer one first
            assert loop.prepares_resent <= 2 * channels * events, "asked more often than an input moved"
            events += loop.prepares_sent
    assert Watched.barriers


def test_a_quiet_loop_asks_once_an_epoch() -> None:
    network, _ = network_of(REACHED)
    run_epochs(network, None, [FIRST])
    before = network.statistics().loops[0]
    run_epochs(network, None, [[]])
    after = network.statistics().loops[0]
    assert after.rounds == before.rounds
    assert after.prepares_sent - before.prepares_sent - (after.prepares_resent - before.prepares_resent) == 1


def test_while_nothing_moves_nothing_is_sent_again() -> None:
    network, _ = network_of(REACHED)
    network.end(1)
    for _ in range(100):
        assert not network.run()
    assert network.statistics().loops[0].prepares_sent == 1


def test_an_inner_loop_is_quiet_before_the_outer_prepare_leaves_it() -> None:
    network, seeded = network_of(NESTED, channels=2, seed=3)
    feed(network, FIRST, seeded=seeded)
    assert network.run()
    outer, inner = network.statistics().loops
    assert inner.prepares_sent > outer.prepares_sent
