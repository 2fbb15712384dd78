"""Class of bug: where the system starts no thread any more (a limit of processes, no memory for a stack), the thread
that asked for one ended, and everything that it served waited for ever.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait

import pytest

from tidegate.executor.runtime import starting
from tidegate.executor.runtime.scheduler import LONG_NS, Scheduler, Slot
from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.executor.runtime.timers import Timers
from tidegate.executor.tasks.epoch_loop import start_beside
from tidegate.proto.errors import Exhausted
from tidegate.server.calls.call_threads import Threads

Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Limit]:
    """Sets how many more threads the system starts."""
    start = threading.Thread.start
    left = [0]

    def bounded(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    def set_limit(threads: int) -> None:
        left[0] = threads
        monkeypatch.setattr(threading.Thread, "start", bounded)

    yield set_limit
    monkeypatch.setattr(threading.Thread, "start", start)


class Steps:
    """A work of so many steps that sleep."""

    def __init__(self, steps: int, seconds: float = 0.0) -> None:
        self._left = steps
        self._seconds = seconds
        self.done = threading.Event()

    def step(self, until_ns: int) -> bool:
        time.sleep(self._seconds)
        self._left -= 1
        if not self._left:
            self.done.set()
        return self._left > 0


def submitted(scheduler: Scheduler, works: list[Steps]) -> None:
    for work in works:
        scheduler.submit(Slot(work))


def test_works_share_the_threads_that_could_be_started(limit: Limit) -> None:
    scheduler, works = Scheduler(4), [Steps(20) for _ in range(8)]
    limit(1)
    submitted(scheduler, works)
    assert all(work.done.wait(20) for work in works)
    scheduler.close()


def test_a_thread_in_a_long_step_goes_on_where_no_other_can_be_started(limit: Limit) -> None:
    scheduler, long = Scheduler(1), Steps(2, 3 * LONG_NS / 1e9)
    limit(2)  # a worker, and the thread that looks for long steps
    submitted(scheduler, [long])
    time.sleep(2 * LONG_NS / 1e9)
    others = [Steps(20) for _ in range(8)]
    submitted(scheduler, others)
    assert all(work.done.wait(20) for work in (long, *others))
    scheduler.close()


def test_works_begin_once_the_system_has_threads_again(limit: Limit) -> None:
    scheduler, works = Scheduler(2), [Steps(1), Steps(1)]
    limit(0)
    submitted(scheduler, works[:1])
    limit(3)
    submitted(scheduler, works[1:])
    assert all(work.done.wait(20) for work in works)
    scheduler.close()


def test_a_step_that_raises_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def step(self, until_ns: int) -> bool:
            raise MemoryError

    scheduler, work = Scheduler(1), Steps(1)
    with caplog.at_level(logging.ERROR):
        scheduler.submit(Slot(Broken()))
        submitted(scheduler, [work])
        assert work.done.wait(20)
    assert "a step raised" in caplog.text
    scheduler.close()


def test_timed_calls_come_once_the_system_has_a_thread(limit: Limit) -> None:
    timers, came = Timers(), threading.Event()
    limit(0)
    timers.call_later(0, came.set)
    limit(1)
    timers.call_later(0, lambda: None)
    assert came.wait(20)
    timers.close()


def test_whoever_submits_makes_the_call_where_no_thread_can_be_started(limit: Limit) -> None:
    threads = SideThreads(4)
    queue = threads.queue(2)
    limit(0)
    assert queue.submit(threading.get_ident).result(0) == threading.get_ident()
    limit(1)
    calls = [queue.submit(threading.get_ident) for _ in range(4)]
    assert not wait(calls, 20).not_done
    assert threading.get_ident() not in {call.result() for call in calls}
    threads.close()


def test_a_call_beside_a_thread_is_made_on_it_where_no_other_can_be_started(limit: Limit) -> None:
    calls: list[int] = []
    limit(0)
    start_beside(lambda: calls.append(threading.get_ident()))
    assert calls == [threading.get_ident()]


def test_calls_of_a_server_wait_for_the_threads_that_there_are_and_are_refused_without_any(limit: Limit) -> None:
    async def check() -> None:
        threads = Threads(4, "call")
        limit(0)
        with pytest.raises(Exhausted, match="no thread left"):
            await threads.call(threading.get_ident)
        limit(1)
        calls = (threads.call(lambda: time.sleep(0.01)) for _ in range(8))
        assert await asyncio.wait_for(asyncio.gather(*calls), 20) == [None] * 8
        assert threads.close(seconds=20)

    asyncio.run(check())


def test_a_long_call_that_left_leaves_its_place_to_the_next_one_once_it_ends(limit: Limit) -> None:
    async def check() -> None:
        threads, end = Threads(1, "call"), threading.Event()
        limit(1)
        await threads.long_call(end.wait, lambda: True, 0.0)
        waits = asyncio.ensure_future(threads.call(threading.get_ident))
        await asyncio.sleep(0)
        limit(1)
        end.set()
        assert await asyncio.wait_for(waits, 20)
        assert threads.close(seconds=20)

    asyncio.run(check())


def test_the_log_says_once_a_minute_that_the_system_starts_no_thread(
    limit: Limit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_logged_at", -1e9)
    limit(0)
    with caplog.at_level(logging.WARNING):
        assert not any(starting.has_started(threading.Thread()) for _ in range(3))
    assert len([record for record in caplog.records if "starts no thread" in record.message]) == 1
