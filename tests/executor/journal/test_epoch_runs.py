"""Epochs that are computed again with other rows: no reader gets rows of two runs as those of one epoch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.proto.errors import OutOfRange, TaskFailed
from tidegate.proto.values import Cursor, Data, Determinism, Durability, after

from ..fakes import POISON, SCHEMA, Client
from .restarts import Restarts

RELAXED = {"determinism": Determinism.RELAXED}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        yield restarts


def restarted(service: Restarts, task: Client) -> Client:
    """The task behind a restart, with which its rows become others."""
    service.kill()
    before = service.engine.function
    service.engine.function = lambda batch: plus_hundred(before(batch))
    service.start()
    return service.attach(task)


def plus_hundred(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([[value + 100 for value in batch.column(0).to_pylist()]], schema=SCHEMA)


def begun(service: Restarts, **options: object) -> Client:
    """A task with an epoch of four rows, each in a batch of its own."""
    task = service.create(**options)
    for value in range(4):
        task.add(value)
    task.seal()
    return task


def read(task: Client, cursor: Cursor) -> tuple[list[int], Cursor]:
    """The next row at the cursor, and the cursor behind it."""
    data = task.at(cursor, max_bytes=1)[0]
    assert isinstance(data, Data)
    return data.batches[0].column(0).to_pylist(), after(data, cursor)


def refused(call: Callable[..., object], *arguments: object) -> str | None:
    try:
        call(*arguments)
    except OutOfRange as error:
        return error.reason
    return None


def test_a_reader_of_an_earlier_run_is_told_so_after_another_one_has_read_the_new_run(service: Restarts) -> None:
    task = begun(service, **RELAXED)
    rows, old = read(task, Cursor(1))
    task = restarted(service, task)
    assert task.epoch(1) == [100, 101, 102, 103]
    assert refused(task.at, old) == "EPOCH_RESTARTED"
    assert refused(service.manager.acknowledge, task.id, old) == "EPOCH_RESTARTED"
    assert (rows, read(task, Cursor(1))[0]) == ([0], [100])


def test_each_restart_begins_a_run_of_its_own(service: Restarts) -> None:
    task = begun(service, **RELAXED)
    cursors = []
    for run in range(4):
        cursors.append(read(task, Cursor(1))[1])
        assert task.epoch(1) == [value + 100 * run for value in range(4)]
        assert [refused(task.at, old) for old in cursors] == [*["EPOCH_RESTARTED"] * run, None]
        task = restarted(service, task)


def test_a_reader_goes_on_in_the_run_that_it_has_begun(service: Restarts) -> None:
    task = restarted(service, begun(service, **RELAXED))
    cursor, values = Cursor(1), []
    for _ in range(4):
        rows, cursor = read(task, cursor)
        values += rows
        service.manager.acknowledge(task.id, cursor)
    assert values == [100, 101, 102, 103]
    assert task.info().acknowledged.run == cursor.run != 0


def test_an_epoch_that_is_read_for_the_first_time_after_a_restart_has_a_run_that_ends_with_the_next_one(
    service: Restarts,
) -> None:
    task = restarted(service, service.create(**RELAXED))
    task.add(1)
    task.seal()
    task.add(2, 3)
    task.seal()
    _, old = read(task, Cursor(2))
    task = restarted(service, task)
    assert task.epoch(2) == [202, 203]
    assert refused(task.at, old) == "EPOCH_RESTARTED"


def test_all_runs_of_a_strict_epoch_are_one(service: Restarts) -> None:
    task = begun(service)
    _, cursor = read(task, Cursor(1))
    task = service.restart(task)
    rows, behind = read(task, cursor)
    assert (rows, cursor.run, behind.run) == ([1], 1, 1)


def test_a_task_that_ends_with_its_service_has_no_runs(service: Restarts) -> None:
    assert read(begun(service, **RELAXED, durability=Durability.NONE), Cursor(1))[1].run == 0


def test_a_reader_who_has_all_rows_of_a_run_acknowledges_the_whole_epoch_after_a_restart(service: Restarts) -> None:
    task = begun(service, **RELAXED)
    assert task.epoch(1) == [0, 1, 2, 3]
    task = restarted(service, task)
    service.manager.acknowledge(task.id, Cursor(2))
    assert task.info().acknowledged == Cursor(2)
    with pytest.raises(OutOfRange, match="was acknowledged"):
        task.next(1)


def test_a_reader_that_goes_on_where_a_run_was_acknowledged_is_told_of_the_new_one(service: Restarts) -> None:
    """A reader who keeps no cursor, because it acknowledges what it has."""
    task = begun(service, **RELAXED)
    _, cursor = read(task, Cursor(1))
    service.manager.acknowledge(task.id, cursor)
    service.durable.flush()
    for _ in range(2):
        task = restarted(service, task)
        assert task.info().acknowledged == cursor
        assert refused(task.at, task.info().acknowledged) == "EPOCH_RESTARTED"
        assert read(task, Cursor(1))[0] != [0]
    _, new = read(task, Cursor(1))
    service.manager.acknowledge(task.id, new)
    assert task.info().acknowledged.run == new.run
    assert read(task, task.info().acknowledged)[0] == [201]


def test_rows_of_the_new_run_that_another_reader_has_acknowledged_are_not_promised_to_that_of_the_old_one(
    service: Restarts,
) -> None:
    task = begun(service, **RELAXED)
    _, old = read(task, read(task, Cursor(1))[1])
    task = restarted(service, task)
    _, new = read(task, Cursor(1))
    service.manager.acknowledge(task.id, new)
    with pytest.raises(OutOfRange, match="last acknowledged cursor, row 1 of epoch 1") as raised:
        task.at(old)
    assert raised.value.reason == "EPOCH_RESTARTED"
    assert read(task, task.info().acknowledged)[0] == [101]


def test_a_cursor_without_a_run_is_taken_until_its_epoch_is_computed_again(service: Restarts) -> None:
    task = begun(service, **RELAXED)
    assert read(task, Cursor(1, 1))[0] == [1]
    task = restarted(service, task)
    assert refused(task.at, Cursor(1, 1)) == "EPOCH_RESTARTED"
    assert task.epoch(1) == [100, 101, 102, 103]
    with pytest.raises(OutOfRange, match="keep a cursor as the service gives it") as raised:
        task.at(Cursor(1, 1))
    assert raised.value.reason == "CURSOR_WITHOUT_RUN"


def test_an_older_client_which_knows_no_runs_reads_on_behind_what_was_handed_out(service: Restarts) -> None:
    task = begun(service, **RELAXED)
    task = restarted(service, task)
    assert refused(task.at, Cursor(1, 1, run=None)) == "EPOCH_RESTARTED"
    read(task, Cursor(1, 0, run=None))
    assert read(task, Cursor(1, 1, run=None))[0] == [101]
    assert refused(task.at, Cursor(1, 3, run=None)) == "EPOCH_RESTARTED"


def test_a_folder_that_was_put_back_from_a_copy_takes_no_cursor_of_the_one_in_its_place(
    service: Restarts, tmp_path: Path
) -> None:
    task = restarted(service, begun(service, **RELAXED))
    shutil.copytree(service.data, tmp_path / "copy")
    task = restarted(service, task)
    _, later = read(task, Cursor(1))
    service.manager.close()
    service.data = tmp_path / "copy"
    service.start()
    task = service.attach(task)
    task.epoch(1)
    assert refused(task.at, later) == "EPOCH_RESTARTED"


def test_two_readers_of_a_strict_epoch_of_other_versions_do_not_mix_them(service: Restarts) -> None:
    task = begun(service)
    _, old = read(task, Cursor(1))
    service.engine.versions = lambda: {"duckdb": "another"}  # type: ignore[method-assign]
    task = restarted(service, task)
    assert task.epoch(1) == [100, 101, 102, 103]
    assert refused(task.at, old) == "EPOCH_RESTARTED"
    assert refused(task.at, replace(old, run=0)) == "CURSOR_WITHOUT_RUN"
    _, new = read(task, Cursor(1))
    task = service.restart(task)
    task.epoch(1)
    assert refused(task.at, new) == "EPOCH_RESTARTED"


def test_two_readers_of_an_epoch_from_which_a_split_was_left_out_do_not_mix_its_rows(service: Restarts) -> None:
    task = begun(service)
    _, old = read(task, read(task, Cursor(1))[1])
    task.add(POISON)
    task.seal()
    with pytest.raises(TaskFailed):
        task.epoch(2)
    service.manager.recover_task(task.id, [("a", 1), ("a", 5)])
    assert task.epoch(1) == [1, 2, 3]
    assert refused(task.at, old) == "EPOCH_RESTARTED"
    assert read(task, read(task, Cursor(1))[1])[0] == [2]
