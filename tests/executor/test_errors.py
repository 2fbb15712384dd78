"""A failure is one epoch's, or one task's, and reaches every waiter."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from tidegate.proto.errors import NotFound, Refused, TaskCancelled, TaskFailed
from tidegate.proto.values import Barrier, Cursor, Data, Finished, OnError, TaskOptions, TaskPhase

from .fakes import PLAN, POISON, FakeEngine, running


def test_a_failed_epoch_fails_the_task_with_the_cause() -> None:
    with running() as task:
        task.add(1)
        task.add(POISON)
        task.seal()
        with pytest.raises(TaskFailed, match="split 2 of source 'a': poison") as failed:
            task.epoch(1)
        assert failed.value.reason == "EXECUTION_FAILED"
        assert task.info().state is TaskPhase.FAILED
        assert task.info().error.reason == "EXECUTION_FAILED"


def test_earlier_epochs_of_a_failed_task_stay_readable() -> None:
    with running() as task:
        for value in (1, 2, POISON):
            task.add(value)
            task.seal()
        with pytest.raises(TaskFailed):
            task.epoch(3)
        assert (task.epoch(1), task.epoch(2)) == ([1], [2])
        task.manager.acknowledge(task.id, Cursor(3))


def test_rows_already_read_of_a_failed_epoch_are_void() -> None:
    with running(FakeEngine(early=True)) as task:
        task.add(1)
        assert isinstance(task.next(1)[0], Data)
        task.add(POISON)
        with pytest.raises(TaskFailed):
            task.next(1, 1)
        with pytest.raises(TaskFailed):
            task.next(1, 0)
        assert task.info().statistics.output_rows == 0


def test_a_failed_task_refuses_every_call_that_would_change_it() -> None:
    with running() as task:
        task.add(POISON)
        task.seal()
        with pytest.raises(TaskFailed):
            task.epoch(1)
        for call in (lambda: task.add(1), task.seal, task.end, lambda: task.seal(1)):
            with pytest.raises(TaskFailed, match="poison"):
                call()


def test_with_skip_epoch_the_barrier_carries_the_error_and_the_task_goes_on() -> None:
    with running(on_error=OnError.SKIP_EPOCH) as task:
        for value in (1, POISON, 3):
            task.add(value)
            task.seal()
        assert (task.epoch(1), task.epoch(2)) == ([1], [])
        assert task.barrier.error.reason == "EXECUTION_FAILED"
        assert "poison" in task.barrier.error.message
        assert task.epoch(3) == [3]
        assert task.barrier.error is None
        task.end()
        assert isinstance(task.next(4)[0], Finished)


def test_a_skipped_epoch_that_began_early_discards_the_rest_of_its_splits() -> None:
    with running(FakeEngine(early=True), on_error=OnError.SKIP_EPOCH) as task:
        task.add(1)
        assert task.next(1)[0].rows == 1
        for value in (POISON, 2):
            task.add(value)
        task.seal()
        (barrier,) = task.next(1, 1)
        assert isinstance(barrier, Barrier)
        assert barrier.error is not None
        assert barrier.rows == 0
        task.add(5)
        task.seal()
        assert task.epoch(2) == [5]


def test_what_was_read_of_a_skipped_epoch_may_be_acknowledged() -> None:
    with running(FakeEngine(early=True), on_error=OnError.SKIP_EPOCH) as task:
        task.add(1)
        task.next(1)
        task.add(POISON)
        task.seal()
        (barrier,) = task.next(1, 1, acknowledge=Cursor(1, 1))
        assert barrier.error is not None
        task.next(2, wait=0.0, acknowledge=Cursor(2))


def test_a_bug_is_logged_with_its_traceback_and_told_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyError("secret path")

    with running(FakeEngine(function=broken)) as task, caplog.at_level(logging.ERROR):
        task.add(1)
        task.seal()
        with pytest.raises(TaskFailed) as failed:
            task.epoch(1)
        assert failed.value.reason == "INTERNAL"
        assert "secret" not in str(failed.value)
        assert "KeyError: 'secret path'" in caplog.text


def test_one_task_s_failure_leaves_the_others_alone() -> None:
    with running() as task:
        other = task.manager.create_task(PLAN, TaskOptions(), {}).id
        task.add(POISON)
        task.seal()
        with pytest.raises(TaskFailed):
            task.epoch(1)
        task.id = other
        task.add(1)
        task.seal()
        assert task.epoch(1) == [1]


def test_a_cancelled_task_tells_so_and_frees_what_it_held() -> None:
    engine = FakeEngine()
    with running(engine, output_bytes=1) as task:
        task.add(1, 2, 3)
        task.seal()
        task.epoch(1)
        task.manager.cancel_task(task.id)
        for call in (lambda: task.add(1), task.seal, task.end, lambda: task.look(1)):
            with pytest.raises(TaskCancelled):
                call()
        statistics = task.info().statistics
        assert (statistics.output_bytes_held, statistics.spilled_bytes) == (0, 0)
        assert engine.computations[0].closed.wait(20)


def test_cancelling_a_finished_task_leaves_its_results() -> None:
    with running() as task:
        task.add(1)
        task.end()
        task.epoch(1)
        task.manager.cancel_task(task.id)
        assert task.info().state is TaskPhase.FINISHED
        assert task.epoch(1) == [1]


def test_a_deleted_task_is_unknown_and_its_files_are_gone() -> None:
    with running(output_bytes=1) as task:
        task.add(*range(1_000))
        task.add(*range(1_000))
        task.seal()
        task.epoch(1)
        task.manager.delete_task(task.id)
        assert not any(task.manager.folder.rglob("*.arrow"))
        for call in (task.info, lambda: task.manager.delete_task(task.id), lambda: task.add(1)):
            with pytest.raises(NotFound, match="no task"):
                call()


def test_a_finished_task_closes_its_computation() -> None:
    engine = FakeEngine()
    with running(engine) as task:
        task.add(1)
        task.end()
        task.epoch(1)
        assert engine.computations[0].closed.wait(20)


def test_a_closed_service_makes_no_task() -> None:
    with running() as task:
        task.manager.close()
        with pytest.raises(Refused, match="closed"):
            task.manager.create_task(PLAN, TaskOptions(), {})
