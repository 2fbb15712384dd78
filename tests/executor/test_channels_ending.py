"""Bad ends of epochs on several channels: nothing is left of the epoch."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from pathlib import Path

import pytest

from tidegate.executor.exchange.exchange import Exchange
from tidegate.planner.ir import Routing
from tidegate.planner.physical.pipelines import PhysicalPlan, Start
from tidegate.proto.errors import TaskCancelled, TaskFailed
from tidegate.proto.values import Barrier, Blocked, BlockedState, Cursor, OnError

from ..shaking import shaken
from .channel_plans import Running, exchange, fragment, inline, pipeline, plan, receive, running, scan, summed
from .exchanging import SECONDS

POISON = -13
CHECKED = f"CASE WHEN c1 = {POISON} THEN error('a row is poison') ELSE c1 END"
CHANNELS = pytest.mark.parametrize("channels", [1, 3])
THREADS = pytest.mark.parametrize("threads", [1, 4])


def poisoned(channels: int, *, producer: bool) -> PhysicalPlan:
    """One side of an exchange fails of a poisoned row."""
    moved = exchange(0, Routing.HASH, channels)
    above, below = (CHECKED, "c1") if producer else ("c1", CHECKED)
    return plan(
        pipeline(fragment(f"SELECT c0, {above} FROM in0", scan("t")), "t", channels=channels, into=[moved]),
        pipeline(fragment(f"SELECT c0, {below} FROM in0", receive(moved), plan_path="below"), channels=channels),
    )


def endless(channels: int) -> PhysicalPlan:
    """Every row with more numbers than can ever be counted."""
    moved = exchange(0, Routing.HASH, channels)
    never = fragment("SELECT c0, sum(r.range)::BIGINT FROM in0, range(1000000000000) r GROUP BY c0", scan("t"))
    return plan(
        pipeline(never, "t", channels=channels, into=[moved]),
        pipeline(fragment("SELECT c0, c1 FROM in0", receive(moved)), channels=channels),
    )


def values(task: Running, epoch: int) -> list[int]:
    return sorted(value for batch in task.batches(epoch) for value in batch.column(1).to_pylist())


ROWS = list(range(100_000))


@CHANNELS
@THREADS
@pytest.mark.parametrize("producer", [True, False])
def test_an_error_on_either_side_of_an_exchange_fails_the_epoch_once_and_the_next_starts_clean(
    producer: bool, channels: int, threads: int, tmp_path: Path
) -> None:
    with running(poisoned(channels, producer=producer), tmp_path, threads=threads, on_error=OnError.SKIP_EPOCH) as task:
        for bad in (50_000, 0, 99_999):
            values_with_poison = [POISON if row == bad else row for row in ROWS]
            epoch = task.seal(t=inline(ROWS, values_with_poison, batch_rows=10_000))
            (*_, frame) = task.manager.next(task.id, Cursor(epoch), wait=60.0)
            while not isinstance(frame, Barrier):
                (*_, frame) = task.manager.next(task.id, Cursor(epoch), wait=60.0)
            assert frame.error is not None
            assert "a row is poison" in frame.error.message
            assert values(task, task.seal(t=inline(ROWS))) == ROWS


def test_a_failed_task_names_the_row_s_error_not_the_interrupts_it_caused(tmp_path: Path) -> None:
    with running(poisoned(3, producer=True), tmp_path, threads=4) as task:
        epoch = task.seal(t=inline(ROWS, [POISON, *ROWS[1:]], batch_rows=1_000))
        with pytest.raises(TaskFailed, match="a row is poison"):
            values(task, epoch)
        nothing_is_left(task)


@CHANNELS
@THREADS
def test_a_cancellation_in_the_middle_releases_everybody(channels: int, threads: int, tmp_path: Path) -> None:
    with running(endless(channels), tmp_path, threads=threads) as task:
        epoch = task.seal(t=inline(range(10)))
        (frame,) = task.manager.next(task.id, Cursor(epoch), wait=0.2)
        assert isinstance(frame, Blocked)
        assert frame.state is BlockedState.WORKING
        task.manager.cancel_task(task.id)
        with pytest.raises(TaskCancelled):
            task.manager.next(task.id, Cursor(epoch), wait=20.0)
    nothing_is_left(task)


def test_a_cancellation_at_any_time_leaves_nothing(tmp_path: Path) -> None:
    random_numbers = random.Random(5)
    with shaken(5, lambda number: number * 0.002), running(summed(3), tmp_path, threads=4) as task:
        tasks = [task, *(Running(task.manager, task.engine) for _ in range(7))]
        for running_task in tasks:
            running_task.seal(t=inline([row % 1_000 for row in ROWS], batch_rows=5_000))
        for running_task in tasks:
            running_task.manager.next(running_task.id, Cursor(1), wait=random_numbers.random() * 0.1)
            running_task.manager.cancel_task(running_task.id)
    for running_task in tasks:
        nothing_is_left(running_task)


def nothing_is_left(task: Running) -> None:
    """No instance is out, none of those that were has an open connection, no file is open, no thread at work."""
    task.manager.close()
    assert task.engine.pool.out == []
    open_files = {os.path.realpath(f"/proc/self/fd/{descriptor}") for descriptor in os.listdir("/proc/self/fd")}
    assert not [path for path in open_files if path.startswith(str(task.engine.folder))]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidegate-")]


def test_after_its_epochs_a_task_has_nothing_open(tmp_path: Path) -> None:
    with running(summed(4), tmp_path, threads=8, queue_bytes=10_000) as task:
        for _ in range(3):
            task.run(t=inline(ROWS))
        instances = task.engine.pool.taken[:8]
        assert len(instances) == 8
        assert not list((tmp_path / "service").rglob("*.arrow"))
    nothing_is_left(task)
    assert all(instance.idle for instance in instances)


def test_channels_have_fixed_shares_of_the_task_s_memory(tmp_path: Path) -> None:
    moved = exchange(0, Routing.HASH, 2)
    uneven = plan(
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t", channels=2, into=[moved]),
        pipeline(fragment("SELECT c0, c1 FROM in0", receive(moved), plan_path="below"), channels=2, weight=3),
    )
    with running(uneven, tmp_path, memory_limit=800 << 20) as task:
        task.run(t=inline(ROWS))
        instances = task.engine.pool.taken[:4]
        assert sorted(instance.settings.memory_limit >> 20 for instance in instances) == [100, 100, 300, 300]
        assert {instance.settings.threads for instance in instances} == {1}


def test_with_one_channel_and_no_exchange_one_instance_has_all_the_memory(tmp_path: Path) -> None:
    two = plan(
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("t")), "t", start=Start.PIECE),
        pipeline(fragment("SELECT c0, c1 FROM in0", scan("u"), plan_path="second"), "u"),
    )
    with running(two, tmp_path, memory_limit=800 << 20) as task:
        assert task.run(t=inline([1]), u=inline([2])) == [(1, 1), (2, 2)]
        instance = task.engine.pool.taken[0]
        assert instance.settings.memory_limit == 800 << 20


@THREADS
def test_an_ended_epoch_leaves_no_exchange_to_the_garbage_collector(threads: int, tmp_path: Path) -> None:
    with running(poisoned(3, producer=True), tmp_path, threads=threads) as task:
        gc.collect()
        gc.disable()
        try:
            assert values(task, task.seal(t=inline(ROWS, ROWS, batch_rows=10_000))) == ROWS
            deadline = time.monotonic() + SECONDS
            while exchanges := [thing for thing in gc.get_objects() if isinstance(thing, Exchange)]:
                assert time.monotonic() < deadline, f"{len(exchanges)} exchanges are left"
                exchanges.clear()
                time.sleep(0.01)  # a thread that helped may be leaving the epoch
        finally:
            gc.enable()
