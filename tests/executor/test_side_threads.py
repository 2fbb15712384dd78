"""The threads that wait for the outside on behalf of operators."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from types import SimpleNamespace

import pytest

from tidegate.executor.runtime import side_threads
from tidegate.executor.runtime.side_threads import SideThreads


@pytest.fixture
def threads() -> Iterator[SideThreads]:
    lookup_threads = SideThreads(4)
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


def test_no_thread_exists_before_the_first_call(threads: SideThreads) -> None:
    before = names()
    queue = threads.queue(2)
    assert names() == before
    assert queue.submit(lambda: 7).result() == 7


def test_calls_run_at_the_same_time_up_to_the_lanes_limit(threads: SideThreads) -> None:
    gates = [Gate() for _ in range(3)]
    queue = threads.queue(2)
    futures = [queue.submit(gate) for gate in gates]
    assert gates[0].begun.wait(60)
    assert gates[1].begun.wait(60)
    assert (queue.running, len(queue.waiting)) == (2, 1)
    for gate in gates:
        gate.let_through()
    assert len({future.result() for future in futures}) == 2


def test_an_idle_thread_is_taken_before_a_new_one(threads: SideThreads) -> None:
    queue = threads.queue(1)
    gate = Gate()
    gate.let_through()
    assert queue.submit(gate).result() == queue.submit(gate).result()


def test_a_thread_that_becomes_idle_releases_the_memory_of_its_results_once(
    threads: SideThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[str] = []
    was_released = threading.Event()

    def release() -> None:
        released.append(threading.current_thread().name)
        was_released.set()

    pool = SimpleNamespace(release_unused=release)
    monkeypatch.setattr(side_threads, "pa", SimpleNamespace(default_memory_pool=lambda: pool))
    monkeypatch.setattr(side_threads, "_IDLE_SECONDS", 0.01)
    queue, gate = threads.queue(1), Gate()
    gate.let_through()
    for calls in (1, 2):
        name = queue.submit(gate).result()
        assert was_released.wait(60)
        was_released.clear()
        assert not was_released.wait(0.1)
        assert released == [name] * calls


def test_one_lane_never_takes_more_than_half_of_all(threads: SideThreads) -> None:
    slow, other = threads.queue(100), threads.queue(100)
    gates = [Gate() for _ in range(10)]
    futures = [slow.submit(gate) for gate in gates]
    assert other.submit(lambda: "at once").result(60) == "at once"
    assert slow.running == 2
    for gate in gates:
        gate.let_through()
    wait(futures)


def test_an_error_is_the_futures(threads: SideThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.queue(1).submit(lambda: 1 / 0).result()


def test_closing_a_lane_cancels_what_waits_and_leaves_what_runs(threads: SideThreads) -> None:
    queue, gate = threads.queue(1), Gate()
    running, waiting = queue.submit(gate), queue.submit(lambda: "")
    assert gate.begun.wait(60)
    queue.close()
    assert (waiting.cancelled(), running.cancelled(), queue.submit(lambda: "").cancelled()) == (
        True,
        False,
        True,
    )
    gate.let_through()
    assert running.result()


def test_a_cancelled_call_is_never_made(threads: SideThreads) -> None:
    queue, gate, was_made = threads.queue(1), Gate(), threading.Event()
    first = queue.submit(gate)
    second: Future[None] = queue.submit(was_made.set)
    assert second.cancel()
    gate.let_through()
    first.result()
    assert queue.submit(was_made.is_set).result() is False


def test_closing_ends_the_threads_and_refuses_more() -> None:
    threads = SideThreads(4)
    queue, gate = threads.queue(1), Gate()
    running, waiting = queue.submit(gate), queue.submit(lambda: "")
    assert gate.begun.wait(60)
    gate.let_through()
    threads.close()
    assert running.result() not in names()
    assert waiting.done()
    assert threads.queue(1).submit(lambda: "").cancelled()


def test_closing_does_not_wait_for_a_call_that_hangs() -> None:
    threads, gate = SideThreads(4), Gate()
    running = threads.queue(1).submit(gate)
    assert gate.begun.wait(60)
    threads.close(grace=0.0)
    assert not running.done()
    gate.let_through()
    running.result()
