"""A few threads run many works in turns."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from tidegate.executor.runtime.scheduler import LENT_SLICE_NS, LONG_NS, SLICE_NS, Scheduler, Slot
from tidegate.executor.runtime.timers import Timers


class Steps:
    """A work whose steps call back, and go on as long as that says so."""

    def __init__(self, call: Callable[[], bool]) -> None:
        self._call = call

    def step(self, until_ns: int) -> bool:
        return self._call()


def accepts(scheduler: Scheduler) -> bool:
    """Whether it still takes works."""
    probe = Slot(Steps(lambda: False))
    scheduler.submit(probe, wake=False)
    return probe.waiting


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    running = Scheduler(2)
    yield running
    running.close()


def test_a_work_is_never_stepped_by_two_threads_at_once(scheduler: Scheduler) -> None:
    inside = threading.Lock()
    left = [200]
    done = threading.Event()

    def step() -> bool:
        assert inside.acquire(blocking=False)
        left[0] -= 1
        inside.release()
        if left[0] <= 0:
            done.set()
        return left[0] > 0

    slot = Slot(Steps(step))
    while not done.is_set():
        scheduler.submit(slot)
    assert left[0] <= 0


def test_a_lent_thread_stays_longer_with_a_work_than_one_that_has_others_to_run(scheduler: Scheduler) -> None:
    ends: list[int] = []
    stepped = threading.Event()

    class Timed:
        def step(self, until_ns: int) -> bool:
            ends.append(until_ns)
            stepped.set()
            return False

    before = time.monotonic_ns()
    slot = Slot(Timed())
    scheduler.submit(slot, wake=False)
    assert scheduler.lend(slot)
    stepped.clear()
    scheduler.submit(slot)
    assert stepped.wait(20)
    assert before + LENT_SLICE_NS <= ends[0] <= time.monotonic_ns() + LENT_SLICE_NS
    assert LENT_SLICE_NS <= 50_000_000
    assert ends[1] <= time.monotonic_ns() + SLICE_NS


def test_a_submit_during_a_step_is_not_lost(scheduler: Scheduler) -> None:
    started, go_on, again = threading.Event(), threading.Event(), threading.Event()

    def step() -> bool:
        if started.is_set():
            again.set()
        started.set()
        go_on.wait(20)
        return False

    slot = Slot(Steps(step))
    scheduler.submit(slot)
    started.wait(20)
    scheduler.submit(slot)
    go_on.set()
    assert again.wait(20)


def test_works_take_turns(scheduler: Scheduler) -> None:
    one = Scheduler(1)
    order: list[str] = []
    done = threading.Event()
    gate = threading.Event()

    def turn(name: str) -> Callable[[], bool]:
        def step() -> bool:
            gate.wait(20)
            order.append(name)
            if len(order) >= 6:
                done.set()
            return order.count(name) < 3

        return step

    for name in "ab":
        one.submit(Slot(Steps(turn(name))))
    gate.set()
    assert done.wait(20)
    one.close()
    assert order == ["a", "b"] * 3


def test_a_caller_can_lend_its_thread_to_a_work_that_waits_for_one() -> None:
    busy = Scheduler(1)
    gate, taken = threading.Event(), threading.Event()
    busy.submit(Slot(Steps(lambda: taken.set() or (gate.wait(20) and False))))
    taken.wait(20)
    ran: list[threading.Thread] = []
    waiting = Slot(Steps(lambda: bool(ran.append(threading.current_thread()))))
    busy.submit(waiting)
    assert busy.lend(waiting)
    assert ran == [threading.current_thread()]
    assert not busy.lend(waiting)
    gate.set()
    busy.close()


def test_turns_go_by_principal_and_then_by_task() -> None:
    one = Scheduler(1)
    gate, taken, done = threading.Event(), threading.Event(), threading.Event()
    one.submit(Slot(Steps(lambda: taken.set() or (gate.wait(20) and False))))
    taken.wait(20)
    order: list[str] = []

    def submit(principal: str, task: str, ordinal: int) -> None:
        name = f"{task}{ordinal}"
        one.submit(
            Slot(
                Steps(lambda: order.append(name) or done.set() if len(order) == 5 else order.append(name)),
                principal,
                task,
            )
        )

    for ordinal in range(3):
        submit("alice", "a", ordinal)
    submit("alice", "b", 0)
    for ordinal in range(2):
        submit("bob", "c", ordinal)
    gate.set()
    assert done.wait(20)
    one.close()
    assert order == ["a0", "c0", "b0", "c1", "a1", "a2"]


@pytest.mark.parametrize("principal", ["greedy", "other"])
def test_steps_without_an_end_keep_nobody_else_waiting(principal: str) -> None:
    few = Scheduler(2)
    gate, ran = threading.Event(), threading.Event()
    endless = [Slot(Steps(lambda: gate.wait(30) and False), "greedy", str(task)) for task in range(8)]
    for slot in endless:
        few.submit(slot)
    left = iter(range(100))

    def turn() -> bool:
        if next(left) == 99:
            ran.set()
        return not ran.is_set()

    few.submit(Slot(Steps(turn), principal, "small"))
    assert ran.wait(20)
    assert not gate.is_set()
    gate.set()
    few.close()


def burn(gate: threading.Event) -> bool:
    """Steps as long as a work whose next step is not taken for short."""
    until = time.thread_time_ns() + 2 * LONG_NS
    while time.thread_time_ns() < until and not gate.is_set():
        pass
    return not gate.is_set()


def test_few_works_with_long_steps_run_together() -> None:
    """Twelve run over and over. Without admission, all twelve would after a second."""
    few = Scheduler(2)
    gate, lock = threading.Event(), threading.Lock()
    running, most = [0], [0]

    def turn() -> bool:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        more = burn(gate)
        with lock:
            running[0] -= 1
        return more

    for task in range(12):
        few.submit(Slot(Steps(turn), "greedy", str(task)))
    gate.wait(2)
    gate.set()
    few.close()
    assert 1 <= most[0] < 12


def test_works_with_short_steps_between_long_ones_do_not_all_run_together() -> None:
    """As an epoch does: its rows are computed in a long step, and its barrier is given in a short one."""
    few = Scheduler(2)
    gate, lock = threading.Event(), threading.Lock()
    running, most = [0], [0]

    def turns() -> Callable[[], bool]:
        steps = itertools.count()

        def turn() -> bool:
            if next(steps) % 2:
                return not gate.is_set()
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            more = burn(gate)
            with lock:
                running[0] -= 1
            return more

        return turn

    for task in range(12):
        few.submit(Slot(Steps(turns()), "greedy", str(task)))
    gate.wait(2)
    gate.set()
    few.close()
    assert 1 <= most[0] < 12


def test_a_work_whose_last_step_was_short_starts_beside_any_number_of_long_ones() -> None:
    few = Scheduler(2)
    gate, ran, again = threading.Event(), threading.Event(), threading.Event()
    small = Slot(Steps(lambda: (again if ran.is_set() else ran).set() or False), "greedy", "small")
    few.submit(small)
    assert ran.wait(20)
    for task in range(30):
        few.submit(Slot(Steps(lambda: gate.wait(30) and False), "greedy", str(task)))
    few.submit(small)
    assert again.wait(20)
    assert not gate.is_set()
    gate.set()
    few.close()


def test_a_thread_that_was_replaced_ends_with_its_step() -> None:
    others = set(threading.enumerate())
    one = Scheduler(1)
    gate, ran, taken = threading.Event(), threading.Event(), threading.Event()
    one.submit(Slot(Steps(lambda: taken.set() or (gate.wait(30) and False))))
    taken.wait(20)
    (stepping,) = (thread for thread in set(threading.enumerate()) - others if thread.name == "tidegate-1")
    one.submit(Slot(Steps(lambda: bool(ran.set()))))
    assert ran.wait(20)
    gate.set()
    stepping.join(20)
    assert not stepping.is_alive()
    again = threading.Event()
    one.submit(Slot(Steps(lambda: bool(again.set()))))
    assert again.wait(20)
    one.close()


def test_no_thread_is_replaced_where_nobody_waits() -> None:
    others = set(threading.enumerate())
    one = Scheduler(1)
    gate, taken, late = threading.Event(), threading.Event(), threading.Event()
    slot = Slot(Steps(lambda: taken.set() or (gate.wait(30) and False)))
    one.submit(slot)
    taken.wait(20)
    assert not late.wait(0.3)
    assert "tidegate-2" not in {thread.name for thread in set(threading.enumerate()) - others}
    gate.set()
    one.close()


def test_nothing_runs_after_close() -> None:
    closed = Scheduler(1)
    closed.close()
    ran = threading.Event()
    slot = Slot(Steps(lambda: bool(ran.set())))
    closed.submit(slot)
    assert not closed.lend(slot)
    assert not ran.is_set()


def test_closing_waits_for_a_step_on_a_lent_thread(scheduler: Scheduler) -> None:
    closing = threading.Thread(target=scheduler.close)

    def step() -> bool:
        closing.start()
        while accepts(scheduler):
            pass
        closing.join(0.2)
        ended.append(not closing.is_alive())
        return False

    ended: list[bool] = []
    slot = Slot(Steps(step))
    scheduler.submit(slot, wake=False)
    assert scheduler.lend(slot)
    closing.join(20)
    ended.append(not closing.is_alive())
    assert ended == [False, True]


def test_a_lent_thread_may_close_the_scheduler_in_its_step(scheduler: Scheduler) -> None:
    slot = Slot(Steps(lambda: bool(scheduler.close())))
    scheduler.submit(slot, wake=False)
    assert scheduler.lend(slot)
    assert not accepts(scheduler)


def test_timers_call_in_the_order_of_their_times() -> None:
    timers = Timers()
    called: list[int] = []
    done = threading.Event()
    timers.call_later(0.05, done.set)
    for delay in (3, 1, 2):
        timers.call_later(delay / 1_000, lambda delay=delay: called.append(delay))
    assert done.wait(20)
    timers.close()
    assert called == [1, 2, 3]


def test_a_timer_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    done = threading.Event()
    timers.call_later(0.0, lambda: 1 // 0)
    timers.call_later(0.001, done.set)
    assert done.wait(20)
    timers.close()
    assert "ZeroDivisionError" in caplog.text


def test_calls_that_were_given_up_are_not_made_and_not_kept() -> None:
    timers = Timers()
    called: list[int] = []
    try:
        given_up = [timers.call_later(3600.0, lambda n=n: called.append(n)) for n in range(10_000)]
        done = threading.Event()
        stays = timers.call_later(0.2, done.set)
        for timer in given_up:
            timer.cancel()
            timer.cancel()
        assert len(timers) < 200
        assert done.wait(10.0)
        stays.cancel()
        assert called == []
    finally:
        timers.close()


def test_a_call_that_was_given_up_holds_nothing_that_it_needed() -> None:
    class Needed:
        """Stands for a task."""

    timers, needed = Timers(), Needed()
    alive = weakref.ref(needed)
    timer = timers.call_later(3600.0, lambda needed=needed: None)
    del needed
    assert alive() is not None
    timer.cancel()
    gc.collect()
    assert alive() is None
    timers.close()
