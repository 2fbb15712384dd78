"""A change of a task calls those who wait for what it brings, and nobody else."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.tasks.listeners import Listeners
from tidegate.proto.values import Cursor

from ..waiting import until
from .fakes import FakeEngine, running

CURSORS = st.builds(Cursor, st.integers(1, 4), st.integers(0, 3))


@given(st.lists(CURSORS), st.sets(st.integers(0, 20)), st.none() | CURSORS)
def test_those_before_a_place_are_called_and_those_that_were_removed_are_not(
    cursors: list[Cursor], removed: set[int], before: Cursor | None
) -> None:
    listeners = Listeners()
    called: list[int] = []
    known = [
        listeners.add(cursor, lambda number=number: called.append(number)) for number, cursor in enumerate(cursors)
    ]
    for number in removed:
        for listener in known[number : number + 1]:
            listeners.remove(listener)
            listeners.remove(listener)
    listeners.call(before)
    assert sorted(called) == [
        number for number, cursor in enumerate(cursors) if number not in removed and (before is None or cursor < before)
    ]
    assert bool(listeners) == any(number not in removed for number in range(len(cursors)))


def test_a_callback_that_fails_keeps_no_other_from_being_called(caplog: pytest.LogCaptureFixture) -> None:
    listeners = Listeners()
    called = []
    listeners.add(Cursor(1), lambda: 1 // 0)
    listeners.add(Cursor(1), lambda: called.append(1))
    listeners.call()
    assert called == [1]
    assert [record.message for record in caplog.records] == ["a task's listener failed"]


def test_a_waiter_for_a_later_epoch_is_not_called_for_earlier_ones() -> None:
    with running() as task:
        calls: dict[int, int] = {1: 0, 2: 0, 9: 0}
        stops = [
            task.manager.subscribe(task.id, Cursor(epoch), lambda epoch=epoch: calls.update({epoch: calls[epoch] + 1}))
            for epoch in calls
        ]
        task.add(1)
        task.seal()
        task.epoch(1)
        assert calls[1] > 0
        assert (calls[2], calls[9]) == (0, 0)
        for stop in stops:
            stop()


def test_a_waiter_for_a_later_row_is_not_called_before_it_is_there() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate, early=True, repeat=3)) as task:
        called: list[Cursor] = []
        for row in (0, 2, 5):
            task.manager.subscribe(task.id, Cursor(1, row), lambda row=row: called.append(Cursor(1, row)))
        task.add(7)
        gate.set()
        until(lambda: task.info().statistics.output_rows == 3)
        assert set(called) == {Cursor(1, 0), Cursor(1, 2)}
        task.seal()
        task.epoch(1)
        assert Cursor(1, 5) in called


@pytest.mark.parametrize("how", ["cancel", "finish"])
def test_every_waiter_is_called_at_the_end_of_the_task(how: str) -> None:
    with running() as task:
        called = threading.Event()
        task.manager.subscribe(task.id, Cursor(10**6), called.set)
        if how == "cancel":
            task.manager.cancel_task(task.id)
        else:
            task.end()
        assert called.wait(20)
