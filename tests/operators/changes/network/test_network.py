"""Networks: epochs, state, watermarks, statistics."""

from __future__ import annotations

from collections import Counter

import pytest

from tidegate.operators.changes.network.link_messages import Barrier, Message, Watermark
from tidegate.operators.changes.network.link_queues import Outlet
from tidegate.operators.testing import MemoryState

from .running import Changes, bag, change, feed, kept, network_of, run_epochs, unpacked
from .terms import Compose, Distinct, Except, Input, Iterate, Ref, Swap, Term, Union

E, S = Input(0), Input(1)
REACHED = Iterate("x", Distinct(Union((S, Compose(Ref("x"), E)))))
NESTED = Iterate("x", Distinct(Union((S, Iterate("y", Distinct(Union((Compose(Ref("x"), E), Compose(Ref("y"), E)))))))))
LIMITED = Iterate("x", Distinct(Union((S, Compose(Ref("x"), E)))), rounds=2)
EPOCHS: list[Changes] = [
    [(1, (0, 0), 1), (0, (0, 1), 1), (0, (1, 2), 1), (0, (2, 1), 1)],
    [(0, (0, 1), -1)],
    [(0, (0, 2), 1), (0, (2, 3), 1)],
    [(0, (2, 1), -1), (1, (0, 0), -1), (1, (1, 1), 1)],
]


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_a_result_is_consolidated_over_channels_and_in_order(channels: int) -> None:
    network, _ = network_of(Union((E, Swap(S))), channels=channels)
    (totals,) = run_epochs(network, None, [[(0, (2, 1), 1), (0, (2, 1), 1), (1, (1, 2), -1), (1, (7, 0), 1)]])
    assert totals == Counter({(0, 7): 1, (2, 1): 1})


def test_rows_behind_an_end_wait_for_the_other_inputs() -> None:
    network, _ = network_of(Except(E, S))
    network.feed(0, 0, change([((1, 1), 1)]))
    network.end(0)
    network.feed(0, 0, change([((2, 2), 1)]))
    assert not network.run()
    network.end(1)
    assert network.run()
    assert bag(network.take()) == {(1, 1): 1}
    network.end()
    assert network.run()
    assert bag(network.take()) == {(2, 2): 1}


def test_an_epoch_can_be_taken_only_when_it_is_complete() -> None:
    network, _ = network_of(E)
    network.run()
    with pytest.raises(RuntimeError, match="no complete epoch"):
        network.take()


@pytest.mark.parametrize("term", [E, Union((E, S)), REACHED], ids=["entry", "union", "loop"])
def test_the_results_watermark_is_the_least_of_its_inputs(term: Term) -> None:
    network, _ = network_of(term, channels=2)
    for port, channel, watermark in ((0, 0, 7), (0, 1, 6), (1, 0, 9), (1, 1, 8)):
        network.end(port, channel, watermark)
    assert network.run()
    network.take()
    assert network.watermark == 6
    network.end()
    network.run()
    network.take()
    assert network.watermark is None


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("term", [REACHED, NESTED, LIMITED, Except(E, S)], ids=["loop", "nested", "limited", "flat"])
def test_every_operator_and_loop_forwards_the_watermark_before_the_barrier(
    term: Term, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages_of: dict[int, list[Message]] = {}
    tell = Outlet.tell

    def noted(outlet: Outlet, message: Message) -> None:
        messages_of.setdefault(id(outlet), []).append(message)
        tell(outlet, message)

    monkeypatch.setattr(Outlet, "tell", noted)
    network, _ = network_of(term, channels=channels)
    feed(network, EPOCHS[0], ports=0)
    network.end_all({0: 7, 1: 5})
    assert network.run()
    assert len(messages_of) >= 3 * channels
    for messages in messages_of.values():
        *_, watermark, barrier = messages
        assert isinstance(barrier, Barrier)
        assert isinstance(watermark, Watermark)
        assert sum(isinstance(message, Watermark) for message in messages) == 1


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("term", [REACHED, NESTED, LIMITED, Except(E, S)], ids=["loop", "nested", "limited", "flat"])
def test_restored_at_any_barrier_it_goes_on_as_if_undisturbed(term: Term, channels: int) -> None:
    undisturbed, _ = network_of(term, channels=channels)
    expected = run_epochs(undisturbed, None, EPOCHS)
    for barrier in range(len(EPOCHS)):
        network, _ = network_of(term, channels=channels)
        run_epochs(network, None, EPOCHS[:barrier])
        state = MemoryState()
        network.save(state)
        restored, _ = network_of(term, channels=channels)
        restored.load(state)
        assert run_epochs(restored, None, EPOCHS[barrier:]) == expected[barrier:]
        assert kept(restored) == kept(undisturbed)


@pytest.mark.parametrize("term", [REACHED, Except(E, S)], ids=["loop", "flat"])
def test_state_is_that_at_a_barrier_or_is_not_saved(term: Term) -> None:
    """What came behind the barrier is in some operators already, and in others not."""
    network, _ = network_of(term, channels=2)
    network.save(MemoryState())
    network.feed(0, 0, change([((1, 1), 1)]))
    for step in (lambda: None, network.end, network.run, lambda: network.end(0)):
        step()
        with pytest.raises(RuntimeError, match="state can be saved only between two epochs"):
            network.save(MemoryState())
    network.take()
    with pytest.raises(RuntimeError, match="state can be saved only between two epochs"):
        network.save(MemoryState())
    network.end(1)
    network.run()
    network.take()
    network.save(MemoryState())


@pytest.mark.parametrize(("continuous", "rounds"), [(False, set()), (True, {"r0"})], ids=["per epoch", "continuous"])
def test_rounds_are_kept_only_where_a_later_epoch_may_need_them(continuous: bool, rounds: set[str]) -> None:
    network, _ = network_of(REACHED, continuous=continuous)
    run_epochs(network, None, [[(1, (0, 0), 1), (0, (0, 1), 1), (0, (1, 2), 1)]])
    state = MemoryState()
    network.save(state)
    kept = {name for _, parts in state.tables.values() for table in parts for name in unpacked(table).column_names}
    assert {name for name in kept if name.startswith("r")} == rounds


def test_state_is_named_by_path_operator_and_channel() -> None:
    network, _ = network_of(REACHED, channels=2)
    state = MemoryState()
    network.save(state)
    joins = sorted(name for name in state.tables if "/Join/" in name)
    assert joins == ["2/3/Join/0/left", "2/3/Join/0/right", "2/3/Join/1/left", "2/3/Join/1/right"]
    assert {"2/loop/totals", "2/loop/0/parked", "2/loop/1/parked"} <= set(state.tables)


def test_after_a_reset_nothing_is_known() -> None:
    network, _ = network_of(REACHED, continuous=False)
    first, *_ = run_epochs(network, None, EPOCHS[:1])
    network.reset()
    assert run_epochs(network, None, EPOCHS[:1]) == [first]


def test_an_unknown_entry_is_refused() -> None:
    network, _ = network_of(E)
    with pytest.raises(ValueError, match=r"no entry 5; there are \[0, 1\]"):
        network.end(5)


def test_statistics_say_what_each_operator_and_loop_did() -> None:
    network, seeded = network_of(REACHED, channels=2)
    feed(network, EPOCHS[0], seeded=seeded)
    network.run()
    said = network.statistics()
    assert {one.operator for one in said.operators} == {"Join", "Linear", "DistinctOrSetOp"}
    for one in said.operators:
        assert 0 < one.busy <= 1
        assert one.backpressure == 0
        assert one.health == 1
    (loop,) = said.loops
    assert (loop.name, loop.rows, loop.most_rows_a_round) == ("x", 3, 1)
    assert loop.rounds >= 3
    assert loop.prepares_sent > loop.rounds
    assert loop.quiesce_seconds > 0
    assert network.nbytes > 0


def test_a_loop_that_counts_no_rounds_is_for_one_epoch_until_it_is_reset() -> None:
    network, _ = network_of(REACHED, continuous=False)
    run_epochs(network, None, EPOCHS[:1])
    with pytest.raises(RuntimeError, match="must be reset between epochs"):
        network.feed(0, 0, change([((0, 1), 1)]))
    with pytest.raises(RuntimeError, match="must be reset between epochs"):
        network.end()


def test_what_loops_have_done_is_told_over_resets() -> None:
    network, _ = network_of(REACHED, continuous=False)
    run_epochs(network, None, EPOCHS[:1])
    (once,) = network.statistics().loops
    network.reset()
    run_epochs(network, None, EPOCHS[:1])
    (twice,) = network.statistics().loops
    assert (twice.rounds, twice.rows) == (2 * once.rounds, 2 * once.rows)
    assert twice.last_rows == (*once.last_rows, *once.last_rows)


@pytest.mark.parametrize("term", [REACHED, NESTED, LIMITED, Except(E, S)], ids=["loop", "nested", "limited", "flat"])
def test_rolled_back_at_any_epoch_it_goes_on_as_if_that_had_not_been(term: Term) -> None:
    undisturbed, _ = network_of(term, channels=2)
    expected = run_epochs(undisturbed, None, EPOCHS)
    network, _ = network_of(term, channels=2)
    for number, epoch in enumerate(EPOCHS):
        before = network.nbytes
        network.mark()
        network.feed(0, 0, change([((7, 8), 1), ((0, 7), 1)]))
        network.end()
        network.run()  # and nobody takes it
        network.roll_back()
        assert network.nbytes <= before
        assert run_epochs(network, None, [epoch]) == expected[number : number + 1]
    assert kept(network) == kept(undisturbed)


def test_runs_that_a_roll_back_would_bring_back_are_counted() -> None:
    network, _ = network_of(Except(E, S), channels=1)
    run_epochs(network, None, [[(0, (at, at), 1) for at in range(2_000)]])
    network.mark()
    run_epochs(network, None, [[(0, (at, at), 1) for at in range(2_000, 4_000)]])
    marked = network.nbytes
    network.unmark()
    assert marked > network.nbytes
