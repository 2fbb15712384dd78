"""A service that was killed and started again: its tasks go on where they stood."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidegate.executor.journal import group_commit, kept_reader
from tidegate.proto.errors import (
    Exhausted,
    NotFound,
    OutOfRange,
    PlanError,
    Problem,
    Refused,
    TaskCancelled,
    TaskFailed,
    Unavailable,
)
from tidegate.proto.values import (
    AddRequest,
    Blocked,
    BlockedState,
    Cursor,
    Determinism,
    Durability,
    ExecutorKind,
    Mode,
    PlanBytes,
    Seal,
    TaskOptions,
    TaskPhase,
    Transaction,
)

from ..fakes import PLAN, FakeComputation, FakeEngine, rows
from .restarts import Restarts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def stored(service: Restarts, table: str) -> int:
    """The rows of a table of the journal, read beside the running service."""
    with closing(sqlite3.connect(f"file:{service.data / 'journal.sqlite'}?mode=ro", uri=True)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def eventually(condition: object, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.01)
    return bool(condition())  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------ splits and epochs


def test_an_epoch_that_was_not_acknowledged_has_the_same_rows_again(service: Restarts) -> None:
    task = service.create()
    task.add(1, 2)
    task.seal()
    assert task.epoch(1) == [1, 2]
    task = service.restart(task)
    assert task.epoch(1) == [1, 2]


def test_splits_that_were_not_sealed_are_there_and_the_next_has_the_next_number(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task = service.restart(task)
    assert task.info().sources[0].last_added == 1
    assert task.add(2).sequence == 2
    task.seal()
    assert task.epoch(1) == [1, 2]


def test_a_split_of_before_is_a_duplicate_and_another_of_its_number_is_refused(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task = service.restart(task)
    assert task.add(1, sequence=1).duplicate
    with pytest.raises(Refused, match="other content"):
        task.add(2, sequence=1)


def test_a_seal_that_waits_for_splits_still_waits_for_them(service: Restarts) -> None:
    task = service.create()
    task.seal(1, a=2)
    task.add(3, sequence=3)
    task.add(1, sequence=1)
    task = service.restart(task)
    assert task.look(1) == [Blocked(state=BlockedState.UNSEALED, missing={"a": (2,)})]
    task.add(2, sequence=2)
    task.seal(2)
    task = service.restart(task)
    assert (task.epoch(1), task.epoch(2)) == ([1, 2], [3])
    service.manager.acknowledge(task.id, Cursor(2))
    assert eventually(lambda: stored(service, "bases") == 1)
    task.add(4)
    task = service.restart(task)
    task.seal(3)
    assert (task.epoch(2), task.epoch(3)) == ([3], [4])


def test_acknowledged_epochs_do_not_come_back_and_nothing_is_kept_of_them(service: Restarts) -> None:
    task = service.create()
    for epoch in (1, 2):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
    service.manager.acknowledge(task.id, Cursor(2))
    assert eventually(lambda: stored(service, "records") == 2)
    assert stored(service, "blobs") == 1
    task = service.restart(task)
    assert task.info().acknowledged == Cursor(2)
    with pytest.raises(OutOfRange, match="was acknowledged"):
        task.next(1)
    assert task.epoch(2) == [2]
    assert task.seal(1) == 1


def test_many_acknowledgements_are_recorded_by_the_next_commit(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LAZY_SECONDS", 3_600.0)
    task = service.create()
    for epoch in range(1, 17):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
        service.manager.acknowledge(task.id, Cursor(epoch + 1))
        assert stored(service, "cursors") == 0
    task.add(17)
    assert [stored(service, table) for table in ("cursors", "records", "blobs")] == [1, 1, 1]
    task = service.restart(task)
    assert task.info().acknowledged == Cursor(17)


def test_rows_that_come_again_while_their_acknowledgement_is_late_are_there_after_a_restart(
    service: Restarts,
) -> None:
    task = service.create()
    for epoch in (1, 2):
        task.add(7)
        task.seal()
        if epoch == 1:
            task.epoch(1)
            service.manager.acknowledge(task.id, Cursor(2))
    service.settle()
    task = service.restart(task)
    assert task.epoch(2) == [7]


def test_a_task_that_is_deleted_with_a_late_acknowledgement_leaves_nothing(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.seal()
    task.epoch(1)
    service.manager.acknowledge(task.id, Cursor(2))
    service.manager.delete_task(task.id)
    service.settle()
    tables = ("tasks", "bases", "cursors", "records", "blobs")
    assert [stored(service, table) for table in tables] == [0] * len(tables)


def test_a_lost_acknowledgement_costs_room_alone(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.seal()
    task.epoch(1)
    service.manager.acknowledge(task.id, Cursor(2))
    task = service.restart(task)
    task.add(2)
    task.seal(2)
    assert task.epoch(2) == [2]


def test_a_cursor_in_the_middle_of_an_epoch_stays_true(service: Restarts) -> None:
    task = service.create()
    task.add(*range(10))
    task.add(*range(10, 20))
    task.seal()
    assert task.epoch(1, 4)[:2] == [4, 5]
    service.manager.acknowledge(task.id, Cursor(1, 12))
    service.settle()
    task = service.restart(task)
    assert task.info().acknowledged == Cursor(1, 12)
    assert task.epoch(1, 13) == [13, 14, 15, 16, 17, 18, 19]
    with pytest.raises(OutOfRange, match="was acknowledged"):
        task.next(1, 11)


def test_rows_that_are_not_computed_again_yet_can_be_acknowledged(service: Restarts) -> None:
    task = service.create()
    for epoch in (1, 2):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
    service.engine.gate = threading.Event()
    task = service.restart(task)
    assert task.info().state is TaskPhase.RECOVERING
    service.manager.acknowledge(task.id, Cursor(3))
    service.engine.gate.set()
    task.add(3)
    task.seal(3)
    assert task.epoch(3) == [3]
    assert eventually(lambda: stored(service, "records") == 2)


def test_a_relaxed_epoch_that_was_read_in_part_is_read_from_its_start(service: Restarts) -> None:
    task = service.create(determinism=Determinism.RELAXED)
    task.add(*range(10))
    task.seal()
    task.epoch(1)
    service.manager.acknowledge(task.id, Cursor(1, 5))
    task = service.restart(task)
    for call in (task.next, lambda *at: service.manager.acknowledge(task.id, Cursor(*at))):
        with pytest.raises(OutOfRange, match="read from row 0 of epoch 1") as raised:
            call(1, 5)
        assert raised.value.reason == "EPOCH_RESTARTED"
    assert task.epoch(1) == list(range(10))


def test_a_strict_epoch_of_another_engine_is_read_from_its_start(service: Restarts) -> None:
    task = service.create()
    task.add(1, 2)
    task.seal()
    task.epoch(1)
    service.engine.versions = lambda: {"duckdb": "another"}  # type: ignore[method-assign]
    task = service.restart(task)
    with pytest.raises(OutOfRange, match="or have another order"):
        task.next(1, 1)
    assert task.epoch(1) == [1, 2]


def test_rows_that_come_before_the_seal_come_again(tmp_path: Path) -> None:
    with Restarts(tmp_path, FakeEngine(early=True)) as service:
        task = service.create()
        task.add(1, 2)
        assert task.next(1)[0].rows == 2  # type: ignore[union-attr]
        task = service.restart(task)
        assert task.next(1)[0].rows == 2  # type: ignore[union-attr]


def test_an_epoch_has_the_same_clock_again(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.seal()
    task.epoch(1)
    task = service.restart(task)
    task.epoch(1)
    before, again = (computation.clocks for computation in service.engine.computations)
    assert before == again


def test_a_continuous_task_computes_all_its_epochs_again_and_gives_those_not_acknowledged(service: Restarts) -> None:
    task = service.create(mode=Mode.CONTINUOUS)
    for epoch in (1, 2, 3):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
    service.manager.acknowledge(task.id, Cursor(3))
    task.add(4)
    task = service.restart(task)
    assert task.epoch(3) == [3]
    assert len(service.engine.computations[-1].clocks) == 3
    task.seal(4)
    assert task.epoch(4) == [4]


def test_epochs_of_before_do_not_keep_others_from_being_sealed(service: Restarts) -> None:
    task = service.create(max_pending_epochs=1)
    task.add(1)
    task.seal(1)
    task.epoch(1)
    task = service.restart(task)
    task.add(2)
    assert task.seal(2) == 2
    with pytest.raises((Exhausted, Refused)):
        task.add(3)


@pytest.mark.parametrize("mode", Mode)
def test_a_barrier_behind_epochs_that_are_acknowledged_seals_a_new_one(service: Restarts, mode: Mode) -> None:
    task = service.create(mode=mode)
    for epoch in (1, 2):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
    service.manager.acknowledge(task.id, Cursor(3))
    service.durable.flush()
    task = service.restart(task)
    assert task.seal() == 3


def test_several_restarts_in_a_row_change_nothing(service: Restarts) -> None:
    task = service.create()
    for epoch in range(1, 5):
        task.add(epoch)
        task.seal(epoch)
        task = service.restart(task)
        task = service.restart(task)
        assert task.epoch(epoch) == [epoch]


# ------------------------------------------------------------------------------------------------------ ends, calls


def test_a_task_that_has_finished_is_finished(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.end()
    task = service.restart(task)
    assert task.epoch(1) == [1]
    assert task.finished(2)
    service.manager.acknowledge(task.id, Cursor(2))
    assert eventually(lambda: stored(service, "records") == 0)
    task = service.restart(task)
    assert task.finished(2)
    assert task.info().state is TaskPhase.FINISHED


def test_a_transaction_of_before_is_replayed(service: Restarts) -> None:
    task = service.create()

    def transact(version: int, value: int) -> object:
        request = AddRequest(splits=[("a", rows(value), None)], seal=Seal())
        return service.manager.transact(task.id, Transaction(application="x", version=version), request)

    first = transact(7, 1)
    task = service.restart(task)
    again = transact(7, 1)
    assert (again.replayed, again.same, again.epoch) == (True, True, first.epoch)  # type: ignore[attr-defined]
    assert task.epoch(1) == [1]
    service.manager.acknowledge(task.id, Cursor(2))
    transact(8, 2)
    task = service.restart(task)
    assert transact(7, 1).replayed  # type: ignore[attr-defined]
    assert service.manager.last_transaction(task.id, "x").version == 8  # type: ignore[union-attr]
    assert task.epoch(2) == [2]


def test_a_cancelled_task_is_cancelled_and_can_be_deleted(service: Restarts) -> None:
    task = service.create()
    service.manager.cancel_task(task.id)
    task = service.restart(task)
    assert task.info().state is TaskPhase.CANCELLED
    with pytest.raises(TaskCancelled):
        task.add(1)
    service.manager.delete_task(task.id)
    assert stored(service, "tasks") == 0


def test_a_cancellation_is_kept_when_an_epoch_ends_after_it(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.seal()
    task.epoch(1)
    journal = service.manager._tasks.find(task.id)._task_state.journal
    service.manager.cancel_task(task.id)
    journal.acknowledged(Cursor(2), 2)  # as the epoch loop does, on its own thread
    service.durable.flush()
    assert service.restart(task).info().state is TaskPhase.CANCELLED


def test_a_deleted_task_is_gone_with_its_rows(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    task.add(*range(20_000))
    service.manager.delete_task(task.id)
    service.restart()
    with pytest.raises(NotFound):
        service.manager.get_task(task.id)
    assert (stored(service, "records"), stored(service, "blobs")) == (0, 0)
    assert list((service.data / "rows").iterdir()) == []


def test_a_task_that_nobody_has_called_for_its_idle_seconds_is_gone_for_good(service: Restarts) -> None:
    task = service.create(idle_seconds=0.1)
    stays = service.create(idle_seconds=600.0)
    assert eventually(lambda: [info.id for info in service.manager.list_tasks()] == [stays.id])
    service.durable.flush()
    service.restart(stays)
    with pytest.raises(NotFound):
        service.manager.get_task(task.id)


def test_a_task_is_deleted_before_it_is_back(service: Restarts) -> None:
    tasks = [service.create() for _ in range(5)]
    service.restart()
    for task in tasks:
        service.manager.delete_task(task.id)
    assert service.manager.list_tasks() == []


def test_a_repeated_request_finds_the_task_that_it_made(service: Restarts) -> None:
    task = service.create(request="mine")
    service.restart()
    assert service.create(request="mine").id == task.id


def test_a_task_without_durability_ends_with_the_service(service: Restarts) -> None:
    task = service.create(durability=Durability.NONE)
    task.add(1)
    service.restart()
    with pytest.raises(NotFound):
        service.manager.get_task(task.id)


def test_all_tasks_are_listed_at_once_and_a_call_brings_its_task_back(service: Restarts) -> None:
    tasks = [service.create() for _ in range(20)]
    for task in tasks:
        task.add(1)
    service.restart()
    infos = service.manager.list_tasks()
    assert {info.id for info in infos} == {task.id for task in tasks}
    assert {info.sources[0].last_added for info in infos} == {1}
    assert [service.attach(task).add(2).sequence for task in reversed(tasks)] == [2] * 20


def test_a_task_that_cannot_come_back_has_failed_alone_and_says_why(service: Restarts) -> None:
    broken, whole = service.create(channels=2), service.create()
    prepare = service.engine.prepare

    def refuse(plan: object, options: object, *others: object) -> object:
        if options.channels == 2:  # type: ignore[attr-defined]
            raise PlanError(Problem(place="relations[0]", reason="UNSUPPORTED", message="no more"))
        return prepare(plan, options, *others)  # type: ignore[arg-type]

    service.engine.prepare = refuse  # type: ignore[method-assign, assignment]
    broken = service.restart(broken)
    assert broken.info().state is TaskPhase.FAILED
    with pytest.raises(TaskFailed, match="no more"):
        broken.add(1)
    assert service.attach(whole).add(1).sequence == 1
    service.engine.prepare = prepare  # type: ignore[method-assign]
    assert service.restart(broken).add(1).sequence == 1


def test_recovery_shows_its_progress(service: Restarts) -> None:
    task = service.create()
    for epoch in (1, 2):
        task.add(epoch)
        task.seal()
        task.epoch(epoch)
    service.engine.gate = threading.Event()
    task = service.restart(task)
    assert (task.info().state, task.info().recovery.done, task.info().recovery.epochs) == (TaskPhase.RECOVERING, 0, 2)  # type: ignore[union-attr]
    service.engine.gate.set()
    task.epoch(2)
    assert (task.info().state, task.info().recovery) == (TaskPhase.RUNNING, None)


# --------------------------------------------------------------------------------------------------- waiting, rows


def test_nothing_is_computed_or_answered_before_it_is_durable(
    service: Restarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = service.create()
    release = threading.Event()
    database = service.durable._journal._database
    commit = database.commit

    def slow(statements: object) -> None:
        release.wait(20)
        commit(statements)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "commit", slow)
    answers: list[object] = []
    request = AddRequest(splits=[("a", rows(1), 1)], seal=Seal())
    thread = threading.Thread(target=lambda: answers.append(service.manager.add_splits(task.id, request)))
    thread.start()
    assert eventually(lambda: task.info().sealed_epoch == 1)
    assert task.next(1, wait=0.2) == [Blocked(state=BlockedState.WORKING)]
    duplicate = threading.Thread(target=lambda: answers.append(task.add(1, sequence=1)))
    duplicate.start()
    time.sleep(0.1)
    assert (answers, service.engine.computations[0].clocks) == ([], [])
    release.set()
    thread.join()
    duplicate.join()
    assert len(answers) == 2
    assert task.epoch(1) == [1]


def test_changes_of_many_tasks_share_commits(service: Restarts) -> None:
    tasks = [service.create() for _ in range(20)]
    before, gate = service.durable.commits, threading.Barrier(20)

    def feed(task: object) -> None:
        gate.wait()
        for value in range(10):
            task.add(value)  # type: ignore[attr-defined]

    threads = [threading.Thread(target=feed, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert service.durable.commits - before < 200


def test_a_call_that_adds_and_seals_is_one_commit(service: Restarts) -> None:
    task = service.create()
    before = service.durable.commits
    request = AddRequest(splits=[("a", rows(value), None) for value in range(5)], seal=Seal())
    service.manager.run_epoch(task.id, request, Cursor(1))
    assert service.durable.commits - before == 1


def test_many_rows_are_kept_in_a_file_once_for_all_splits_that_have_them(service: Restarts) -> None:
    task = service.create()
    for _ in range(3):
        task.add(*range(20_000))
    assert len(list((service.data / "rows").iterdir())) == 1
    task.seal()
    task = service.restart(task)
    assert task.epoch(1) == [*range(20_000)] * 3
    service.manager.acknowledge(task.id, Cursor(2))
    assert eventually(lambda: not list((service.data / "rows").iterdir()))


@pytest.mark.parametrize("small", [True, False])
def test_damaged_rows_fail_their_task_and_are_named(
    service: Restarts, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(kept_reader, "SMALL_BYTES", 0)
    task = service.create()
    task.add(1)
    task.seal()
    service.kill()
    if small:
        with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection, connection:
            connection.execute("UPDATE blobs SET body = CAST(body || x'00' AS BLOB)")
    else:
        [path] = (service.data / "rows").iterdir()
        path.write_bytes(path.read_bytes()[:-1])
    service.start()
    task = service.attach(task)
    with pytest.raises(TaskFailed) as raised:
        task.next(1)
    assert raised.value.reason == "DATA_DAMAGED"


def test_rows_without_a_record_are_removed_at_the_start(service: Restarts) -> None:
    service.create()
    (service.data / "rows" / ("0" * 32)).write_bytes(b"left")
    (service.data / "rows" / "7.temporary").write_bytes(b"half")
    service.restart()
    assert list((service.data / "rows").iterdir()) == []


# ------------------------------------------------------------------------------------------------------- the folder


def test_a_folder_belongs_to_one_service_and_the_refusal_names_it(service: Restarts) -> None:
    from tidegate.executor.journal.durable_tasks import DurableTasks

    task = service.create()
    with pytest.raises(Refused, match=r"belongs to process \d+ on .*, since 20") as raised:
        DurableTasks(service.data)
    assert raised.value.reason == "DATA_IN_USE"
    assert task.add(1).sequence == 1


def test_a_journal_of_a_newer_format_is_refused(service: Restarts) -> None:
    service.kill()
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection, connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(Refused, match="has format 2, and this version of Tidegate reads format 1") as raised:
        service.start()
    assert raised.value.reason == "DATA_VERSION"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE records SET body = body || x'00' WHERE position = 1",
        "UPDATE records SET body = CAST(body || x'00' AS BLOB) WHERE position = 1",
        "UPDATE records SET body = x'00' WHERE position = 2",
        "DELETE FROM records WHERE position = 1",
        "UPDATE tasks SET body = (SELECT body FROM records WHERE position = 1)",
        "UPDATE records SET position = 3 - position",
    ],
)
def test_a_damaged_record_is_refused(service: Restarts, damage: str) -> None:
    task = service.create()
    task.add(1)
    task.add(2)
    service.kill()
    with closing(sqlite3.connect(service.data / "journal.sqlite")) as connection, connection:
        if "3 - position" in damage:
            connection.execute("UPDATE records SET position = position + 10")
            damage = "UPDATE records SET position = 13 - position"
        connection.execute(damage)
    with pytest.raises(Refused) as raised:
        service.start()
    assert raised.value.reason == "DATA_DAMAGED"
    assert "tidegate data check" in raised.value.message


def test_a_journal_that_is_no_database_is_refused(service: Restarts) -> None:
    service.kill()
    for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
        (service.data / name).unlink(missing_ok=True)
    (service.data / "journal.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(Refused) as raised:
        service.start()
    assert raised.value.reason == "DATA_DAMAGED"
    assert "tidegate data check" in raised.value.message


def test_a_service_that_stops_does_not_cancel_its_durable_tasks(service: Restarts) -> None:
    task = service.create()
    task.add(1)
    service.manager.stop()
    with pytest.raises(Unavailable):
        task.add(2)
    task = service.restart(task)
    task.seal()
    assert task.epoch(1) == [1]


@pytest.mark.parametrize(("named", "again"), [("local[2]", "local[2]"), ("", ""), ("session 1", "")])
def test_a_task_is_back_on_the_spark_master_that_it_named_but_not_on_its_callers_session(
    service: Restarts, monkeypatch: pytest.MonkeyPatch, named: str, again: str
) -> None:
    masters: list[str] = []
    prepare = service.engine.prepare

    def noted(plan: PlanBytes, options: TaskOptions, *more: Any) -> FakeComputation:
        masters.append(options.spark)
        return prepare(plan, options, *more)

    monkeypatch.setattr(service.engine, "prepare", noted)
    task = service.create(executor=ExecutorKind.SPARK, spark=named)
    service.restart(task).seal(1)
    assert masters == [named, again]


def test_a_failing_plan_makes_no_record(service: Restarts) -> None:
    def refuse(*_: object) -> object:
        raise PlanError(Problem(place="", reason="UNSUPPORTED", message="no"))

    service.engine.prepare = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(PlanError):
        service.create()
    assert stored(service, "tasks") == 0
    assert PLAN is not None
