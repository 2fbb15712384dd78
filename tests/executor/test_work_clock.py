"""The time that a task works on an epoch, and the end of an epoch that takes too long."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.executor.api.ownership import act_for
from tidegate.executor.runtime.ceilings import Ceilings
from tidegate.executor.runtime.timers import Timer
from tidegate.executor.runtime.work_clock import WorkClock
from tidegate.operators.core.interrupts import MANY, beside
from tidegate.proto.errors import Exhausted, InvalidRequest
from tidegate.proto.values import Cursor, OnError, TaskOptions

from .fakes import PLAN, FakeEngine, manager_of, running


class Later:
    """Timed calls, made by hand."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> Later:
        self.calls.append((seconds, call))
        return self

    def cancel(self) -> None:
        self.calls.pop()

    def come(self) -> None:
        _, call = self.calls.pop()
        call()


def test_work_within_the_bound_is_not_interrupted() -> None:
    later, interrupted = Later(), []
    clock = WorkClock(60.0, later, lambda: interrupted.append(1))
    clock.work_on(1)
    for _ in range(3):
        clock.start()
        clock.stop()
    assert len(later.calls) == 1
    later.come()
    assert (interrupted, later.calls) == ([], [])


def test_a_clock_that_is_closed_asks_for_no_more_calls() -> None:
    later = Later()
    clock = WorkClock(60.0, later, lambda: None)
    clock.work_on(1)
    clock.start()
    clock.stop()
    clock.close()
    clock.close()
    assert later.calls == []


def test_work_beyond_the_bound_is_interrupted_until_it_stops() -> None:
    later, interrupted = Later(), []
    clock = WorkClock(1e-9, later, lambda: interrupted.append(1))
    clock.work_on(7)
    clock.start()
    later.come()
    later.come()
    assert interrupted == [1, 1]
    with pytest.raises(tidegate.ExecutionError, match="epoch 7 took more than 1e-09 seconds"):
        clock.check()
    clock.stop()
    later.come()
    assert interrupted == [1, 1]
    clock.work_on(8)
    clock.check()


def test_without_a_bound_there_is_no_timer() -> None:
    later = Later()
    clock = WorkClock(0.0, later, lambda: None)
    clock.start()
    clock.stop()
    assert later.calls == []


def test_waiting_for_a_reader_is_no_work() -> None:
    with running(FakeEngine(repeat=50), epoch_seconds=1.0, output_bytes=1, spill_quota=0) as task:
        task.add(1)
        task.seal()
        threading.Event().wait(1.2)
        assert task.epoch(1, acknowledge=True) == [1] * 50


@pytest.mark.parametrize("determinism", ["strict", "relaxed"])
def test_an_epoch_beyond_its_seconds_is_skipped_and_the_next_one_runs(determinism: str) -> None:
    a = sub.read_named_table("a", {"x": sub.i64})
    b = sub.read_named_table("b", {"y": sub.i64})
    pairs = a.cross_join(b).filter(sub.col("x") * sub.col("y") == sub.lit(-1)).to_plan()
    many = pa.table({"x": range(2_000_000)})
    options = {"determinism": determinism, "epoch_seconds": 0.5, "on_error": "skip_epoch"}
    with tidegate.local() as client, client.create_task(pairs, **options) as task:
        with pytest.raises(tidegate.EpochError, match=r"more than 0\.5 seconds") as failed:
            task.run_epoch({"a": many, "b": many.rename_columns(["y"])})
        assert failed.value.reason == "EPOCH_SECONDS"
        result = task.run_epoch({"a": pa.table({"x": [1, 2]}), "b": pa.table({"y": [-1, 5]})}).table()
        assert result.to_pylist() == [{"x": 1, "y": -1}]


def test_a_continuous_epoch_beyond_its_seconds_leaves_state_as_it_was() -> None:
    a = sub.read_named_table("a", {"x": sub.i64})
    b = sub.read_named_table("b", {"y": sub.i64})
    pairs = a.cross_join(b).filter(sub.col("x") * sub.col("y") == sub.lit(-1)).to_plan()
    many = pa.table({"x": range(20_000)})
    options = {"mode": "continuous", "epoch_seconds": 0.5, "on_error": "skip_epoch", "memory_limit": 16 << 30}
    with tidegate.local() as client, client.create_task(pairs, **options) as task:
        assert task.run_epoch({"a": pa.table({"x": [1]})}).rows == 0
        with pytest.raises(tidegate.EpochError) as failed:
            task.run_epoch({"a": many, "b": many.rename_columns(["y"])})
        assert failed.value.reason == "EPOCH_SECONDS"
        result = task.run_epoch({"b": pa.table({"y": [-1]})}).table()
        assert result.to_pylist() == [{"x": 1, "y": -1, "_weight": 1}]


def test_an_option_above_its_ceiling_is_refused_and_no_limit_becomes_the_ceiling() -> None:
    ceilings = Ceilings(options={"memory_limit": 1 << 30, "epoch_seconds": 9.0})
    manager = manager_of(FakeEngine(), threads=1, ceilings=ceilings)
    try:
        with pytest.raises(InvalidRequest, match=r"memory_limit=4294967296 is too high: .* at most 1073741824"):
            manager.create_task(PLAN, TaskOptions(), {})
        task = manager.create_task(PLAN, TaskOptions(memory_limit=1 << 30, on_error=OnError.SKIP_EPOCH), {})
        assert (task.options.epoch_seconds, task.options.memory_limit) == (9.0, 1 << 30)
    finally:
        manager.close()


def test_there_are_so_many_tasks_at_once(tmp_path: Path) -> None:
    manager = manager_of(FakeEngine(), threads=1, ceilings=Ceilings(tasks=2))
    try:
        first, _ = (manager.create_task(PLAN, TaskOptions(), {}).id for _ in range(2))
        with pytest.raises(Exhausted, match="there are 2 tasks, and this server allows no more") as refused:
            manager.create_task(PLAN, TaskOptions(), {})
        assert refused.value.reason == "TOO_MANY_TASKS"
        manager.delete_task(first)
        assert manager.create_task(PLAN, TaskOptions(), {})
    finally:
        manager.close()


def test_tasks_of_a_principal_have_so_much_of_an_option_together() -> None:
    ceilings = Ceilings(options_of_principal={"memory_limit": 3 << 30, "spill_quota": 1 << 40})
    manager = manager_of(FakeEngine(), threads=1, ceilings=ceilings, principals=True)
    two = TaskOptions(memory_limit=2 << 30)

    def create(principal: str, options: TaskOptions) -> str:
        def call() -> str:
            act_for(principal)
            return manager.create_task(PLAN, options, {}).id

        return copy_context().run(call)

    try:
        create("alice", two)
        with pytest.raises(
            Exhausted, match=r"together may have memory_limit=3221225472: .* have 2147483648, .* 2147483648;"
        ) as no:
            create("alice", two)
        assert no.value.reason == "PRINCIPAL_CEILING"
        create("alice", TaskOptions(memory_limit=1 << 30))
        create("bob", two)
    finally:
        manager.close()


def test_a_deleted_task_that_was_idle_leaves_no_timer() -> None:
    manager = manager_of(FakeEngine(), threads=1)
    try:
        for _ in range(500):
            manager.delete_task(manager.create_task(PLAN, TaskOptions(idle_seconds=86_400.0), {}).id)
        assert sum(isinstance(known, Timer) and not known.is_over for known in gc.get_objects()) < 200
    finally:
        manager.close()


@pytest.mark.parametrize("ends", ["bound", "cancellation"])
def test_an_epoch_inside_of_a_call_without_pieces_ends_before_the_call_does(ends: str) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def long_call(rows: pa.RecordBatch) -> pa.RecordBatch:
        def call() -> pa.RecordBatch:
            begun.set()
            goes_on.wait(60.0)
            return rows

        return beside(call, MANY)

    seconds = 0.05 if ends == "bound" else 0.0
    try:
        engine = FakeEngine(function=long_call)
        with running(engine, epoch_seconds=seconds) as task:
            task.add(1)
            task.seal()
            assert begun.wait(30.0)
            if ends == "cancellation":
                task.manager.cancel_task(task.id)
            with pytest.raises((tidegate.TaskFailed, tidegate.TaskCancelled)) as ended:
                task.manager.next(task.id, Cursor(1), wait=50.0)
            assert ended.value.reason == ("EPOCH_SECONDS" if ends == "bound" else "TASK_CANCELLED")
            (computation,) = engine.computations
            assert ends == "bound" or computation.closed.wait(50.0)
            assert not goes_on.is_set()
    finally:
        goes_on.set()
