"""The threads that wait for the outside on behalf of operators."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from tidegate.executor.runtime.lookup_threads import LookupThreads


@pytest.fixture
def threads() -> Iterator[LookupThreads]:
    lookup_threads = LookupThreads(4)
    yield lookup_threads
    lookup_threads.close()


class Gate:
    """A call that says that it has begun and ends when it is let through."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._open = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        self._open.wait()
        return threading.current_thread().name

    def let_through(self) -> None:
        self._open.set()


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("tidegate-lookup")}


def test_no_thread_exists_before_the_first_call(threads: LookupThreads) -> None:
    before = names()
    lookup_queue = threads.lookup_queue(2)
    assert names() == before
    assert lookup_queue.submit(lambda: 7).result() == 7


def test_calls_run_at_the_same_time_up_to_the_lanes_limit(threads: LookupThreads) -> None:
    gates = [Gate() for _ in range(3)]
    lookup_queue = threads.lookup_queue(2)
    futures = [lookup_queue.submit(gate) for gate in gates]
    assert gates[0].begun.wait(60)
    assert gates[1].begun.wait(60)
    assert (lookup_queue.running, len(lookup_queue.waiting)) == (2, 1)
    for gate in gates:
        gate.let_through()
    assert len({future.result() for future in futures}) == 2


def test_an_idle_thread_is_taken_before_a_new_one(threads: LookupThreads) -> None:
    lookup_queue = threads.lookup_queue(1)
    gate = Gate()
    gate.let_through()
    assert lookup_queue.submit(gate).result() == lookup_queue.submit(gate).result()


def test_one_lane_never_takes_more_than_half_of_all(threads: LookupThreads) -> None:
    slow, other = threads.lookup_queue(100), threads.lookup_queue(100)
    gates = [Gate() for _ in range(10)]
    futures = [slow.submit(gate) for gate in gates]
    assert other.submit(lambda: "at once").result(60) == "at once"
    assert slow.running == 2
    for gate in gates:
        gate.let_through()
    wait(futures)


def test_an_error_is_the_futures(threads: LookupThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.lookup_queue(1).submit(lambda: 1 / 0).result()


def test_closing_a_lane_cancels_what_waits_and_leaves_what_runs(threads: LookupThreads) -> None:
    lookup_queue, gate = threads.lookup_queue(1), Gate()
    running, waiting = lookup_queue.submit(gate), lookup_queue.submit(lambda: "")
    assert gate.begun.wait(60)
    lookup_queue.close()
    assert (waiting.cancelled(), running.cancelled(), lookup_queue.submit(lambda: "").cancelled()) == (
        True,
        False,
        True,
    )
    gate.let_through()
    assert running.result()


def test_a_cancelled_call_is_never_made(threads: LookupThreads) -> None:
    lookup_queue, gate, was_made = threads.lookup_queue(1), Gate(), threading.Event()
    first = lookup_queue.submit(gate)
    second: Future[None] = lookup_queue.submit(was_made.set)
    assert second.cancel()
    gate.let_through()
    first.result()
    assert lookup_queue.submit(was_made.is_set).result() is False


def test_closing_ends_the_threads_and_refuses_more() -> None:
    threads = LookupThreads(4)
    lookup_queue, gate = threads.lookup_queue(1), Gate()
    running, waiting = lookup_queue.submit(gate), lookup_queue.submit(lambda: "")
    assert gate.begun.wait(60)
    gate.let_through()
    threads.close()
    assert running.result() not in names()
    assert waiting.done()
    assert threads.lookup_queue(1).submit(lambda: "").cancelled()


def test_closing_does_not_wait_for_a_call_that_hangs() -> None:
    threads, gate = LookupThreads(4), Gate()
    running = threads.lookup_queue(1).submit(gate)
    assert gate.begun.wait(60)
    threads.close(grace=0.0)
    assert not running.done()
    gate.let_through()
    running.result()
