"""Many tasks, few threads: waiting is cheap, and nobody waits for somebody else's sake."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from tidegate.proto.errors import NotFound, Refused, TaskCancelled, TaskFailed, TidegateError
from tidegate.proto.values import Cursor, TaskOptions

from ..shaking import shaken
from .fakes import PLAN, POISON, Client, FakeEngine, running


def another(task: Client, **options: object) -> Client:
    return Client(task.manager, task.manager.create_task(PLAN, TaskOptions(**options), {}))


def within_a_millisecond(number: float) -> float:
    return number / 1_000


def outcomes(calls: list[Callable[[], object]], then: Callable[[], object]) -> list[object]:
    """Start the calls, which wait, then do something: what each call returned or raised."""
    started = threading.Barrier(len(calls) + 1)

    def run(call: Callable[[], object]) -> object:
        started.wait(20)
        try:
            return call()
        except TidegateError as error:
            return type(error)

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(run, call) for call in calls]
        started.wait(20)
        then()
        return [future.result(20) for future in futures]


def test_cancelling_during_a_barrier_releases_every_waiter() -> None:
    engine = FakeEngine(gate=threading.Event())
    with running(engine) as task:
        task.add(1)
        task.seal()
        waits = [lambda: task.next(1), lambda: task.next(1), lambda: task.next(2)]
        assert outcomes(waits, lambda: task.manager.cancel_task(task.id)) == [TaskCancelled] * 3
        assert engine.computations[0].closed.wait(20)


def test_an_error_during_a_barrier_reaches_every_waiter() -> None:
    gate = threading.Event()
    with running(FakeEngine(gate=gate)) as task:
        task.add(POISON)
        task.seal()
        assert (
            outcomes([lambda: task.next(1), lambda: task.next(1), lambda: task.next(2)], gate.set) == [TaskFailed] * 3
        )


def test_deleting_a_task_releases_every_waiter() -> None:
    with running() as task:
        waits = [lambda: task.next(1), lambda: task.next(1)]
        released = outcomes(waits, lambda: task.manager.delete_task(task.id))
        assert set(released) <= {TaskCancelled, NotFound}


def test_closing_the_service_releases_every_waiter_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with running(FakeEngine(gate=threading.Event()), idle_seconds=1_000.0) as task:
        task.add(1)
        task.seal()
        released = outcomes([lambda: task.next(1), lambda: task.next(5)], task.manager.close)
        assert set(released) <= {TaskCancelled, Refused}
        assert threading.active_count() == before
        assert not task.manager.folder.exists()


def test_a_task_deleted_in_a_step_is_closed_with_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that was to close it is never taken: the scheduler is closed before the one in progress ends."""
    in_step, closing = threading.Event(), threading.Event()
    join = threading.Thread.join

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        in_step.set()
        assert closing.wait(20)
        return batch

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        closing.set()
        join(thread, timeout)

    engine = FakeEngine(function=function)
    with running(engine) as task:
        task.add(1)
        task.seal()
        assert in_step.wait(20)
        task.manager.delete_task(task.id)
        monkeypatch.setattr(threading.Thread, "join", joined)
    assert engine.computations[0].closed.is_set()


def test_waiting_tasks_hold_no_thread() -> None:
    with running(FakeEngine(repeat=50), threads=1, output_bytes=20_000, spill_quota=0) as task:
        stalled = [another(task, output_bytes=20_000, spill_quota=0) for _ in range(10)]
        for one in stalled:
            one.add(*range(1_000))
            one.seal()
        task.add(*range(10))
        task.seal()
        assert len(task.epoch(1, acknowledge=True)) == 500
        for one in stalled:
            assert len(one.epoch(1, acknowledge=True)) == 50_000


def test_a_task_with_much_to_do_lets_the_others_have_their_turn() -> None:
    done = threading.Event()
    with running(FakeEngine(endless_until=done), threads=1) as task:
        greedy = another(task)
        greedy.add(1, 2)
        greedy.seal()
        task.add(1)
        task.seal()
        assert task.epoch(1) == [1]
        done.set()
        assert greedy.epoch(1) == [1, 2]


def test_many_tasks_at_once_each_give_their_own_rows() -> None:
    with shaken(5, within_a_millisecond), running(FakeEngine(), threads=4) as task:

        def life(number: int) -> bool:
            one = another(task)
            for epoch in range(1, 6):
                for part in range(3):
                    one.add(number, epoch, part)
                one.seal(epoch)
                assert one.epoch(epoch, acknowledge=True) == [
                    value for part in range(3) for value in (number, epoch, part)
                ]
            one.end()
            done = one.finished(6)
            one.manager.delete_task(one.id)
            return done

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(life, range(64)))


def test_many_clients_may_feed_seal_and_read_one_task() -> None:
    with running(threads=2, max_pending_epochs=1_000) as task:

        def feed(number: int) -> None:
            task.add(number)
            task.seal()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(feed, range(100)))
        task.seal()
        task.end()
        read = [value for epoch in range(1, task.info().sealed_epoch + 1) for value in task.epoch(epoch)]
        assert sorted(read) == list(range(100))


def test_the_same_feed_gives_the_same_rows_under_any_delays() -> None:
    seen = set()
    for seed in range(8):
        engine = FakeEngine(sources=("a", "b"), early=True, repeat=3)
        with shaken(seed, within_a_millisecond), running(engine, output_bytes=300) as task:
            for value in range(20):
                task.add(value, source="ab"[value % 2])
            task.seal()
            seen.add(tuple(task.epoch(1, acknowledge=True)))
    assert len(seen) == 1


def test_a_subscriber_is_told_when_there_is_something_to_read() -> None:
    notified = threading.Event()
    with running() as task:
        stop = task.manager.subscribe(task.id, Cursor(1), notified.set)
        task.add(1)
        task.seal()
        assert notified.wait(20)
        stop()
        task.epoch(1)
        notified.clear()
        task.seal()
        task.epoch(2)
        assert not notified.is_set()


def test_an_idle_task_is_deleted() -> None:
    with running(idle_seconds=0.05) as task:
        while task.manager.list_tasks():
            time.sleep(0.01)
        with pytest.raises(NotFound):
            task.info()


def test_a_task_somebody_waits_for_is_not_idle() -> None:
    with running(idle_seconds=1.0) as task:
        assert task.next(1, wait=1.5)
        assert task.info()


def test_a_poll_never_waits_and_never_works() -> None:
    with running(FakeEngine(gate=threading.Event())) as task:
        task.add(1)
        task.seal()
        assert [task.look(1)[0].missing for _ in range(100)] == [{}] * 100
        with pytest.raises(Refused):
            task.add(1, epoch=1)
        assert task.manager.poll(task.id, Cursor(1))
