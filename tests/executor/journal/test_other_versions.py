"""Tasks that come back in a service of other versions: no reader gets rows of two versions as those of one epoch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.errors import OutOfRange
from tidegate.proto.values import Cursor, TaskPhase
from tidegate.relations import IndexLookupJoin, UserOperator

from ..fakes import Client
from ..operated_plans import I64, TEXT, operated, plan, read
from .restarts import Restarts

TAGGED = plan(operated(UserOperator(name="tag"), read("numbers", {"k": I64})), ["k"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Restarts]:
    with Restarts(tmp_path) as restarts:
        restarts.engine.versions = lambda: {"duckdb": "1"}  # type: ignore[method-assign]
        yield restarts


def restarted(service: Restarts, task: Client, version: str) -> Client:
    service.kill()
    service.engine.versions = lambda: {"duckdb": version}  # type: ignore[method-assign]
    service.start()
    return service.attach(task)


def refused(task: Client, epoch: int, row: int) -> bool:
    """Tests whether a reader is sent back to the first row of the epoch."""
    try:
        task.next(epoch, row)
    except OutOfRange as error:
        return error.reason == "EPOCH_RESTARTED"
    return False


def sealed(task: Client, *values: int) -> None:
    task.add(*values)
    task.seal()


def test_an_upgrade_that_is_taken_back_mixes_no_rows(service: Restarts) -> None:
    task = service.create()
    sealed(task, 1, 2, 3)
    task = restarted(service, task, "2")
    assert task.epoch(1) == [1, 2, 3]
    task = restarted(service, task, "1")
    assert refused(task, 1, 2)
    assert task.epoch(1) == [1, 2, 3]


def test_a_reader_that_comes_two_restarts_after_an_upgrade_is_told(service: Restarts) -> None:
    task = service.create()
    sealed(task, 1, 2, 3)
    assert task.epoch(1) == [1, 2, 3]
    task = restarted(service, restarted(service, task, "2"), "2")
    assert refused(task, 1, 2)


def test_epochs_behind_an_upgrade_are_read_from_their_middle_after_the_next_restart(service: Restarts) -> None:
    task = service.create()
    sealed(task, 1)
    task = restarted(service, task, "2")
    sealed(task, 2)  # the epoch that was open: its first rows may have been read before
    sealed(task, 3, 4, 5)
    assert task.epoch(3) == [3, 4, 5]
    service.manager.acknowledge(task.id, Cursor(3, 1))
    task = restarted(service, task, "2")
    assert task.epoch(3, 2) == [5]


# ------------------------------------------------------------------------------------------------ registered operators


class Tags:
    """Its rows, behind so much more."""

    def __init__(self, more: int) -> None:
        self.more = more

    def execute(self, batches: object, stream: str, channel: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:  # type: ignore[attr-defined]
            values = batch["c0"].to_pylist()
            if None in values and self.more == 1:
                raise ValueError("no number")
            yield pa.record_batch({"c0": pa.array([(value or 0) + self.more for value in values], pa.int64())})

    def done(self, channel: int) -> None:
        return None


def owned(folder: Path, version: int) -> tidegate.Client:
    """A service whose operator adds its version to each number. The first version cannot add it to a null."""
    tag = tidegate.user_operator(lambda options: Tags(version), version=str(version))
    return tidegate.local(data=folder / "data", operators={"tag": tag} if version else {})


def begun(folder: Path, *numbers: int | None) -> str:
    """A task of the first version, with one epoch."""
    with owned(folder, 1) as client:
        task = client.create_task(TAGGED)
        task.add_split("numbers", pa.table({"k": pa.array(numbers, pa.int64())}))
        task.request_barrier()
        if None not in numbers:
            assert task.read_epoch()["k"].to_pylist() == [number + 1 for number in numbers if number is not None]
        return task.id


def test_an_epoch_of_another_version_of_an_operator_is_read_from_its_start(tmp_path: Path) -> None:
    task = begun(tmp_path, 10, 20)
    with owned(tmp_path, 1) as client:
        assert client.service.next(task, Cursor(1, 1), wait=20.0)
    with owned(tmp_path, 2) as client:
        with pytest.raises(OutOfRange) as raised:
            client.service.next(task, Cursor(1, 1), wait=20.0)
        assert raised.value.reason == "EPOCH_RESTARTED"
        assert client.task(task).read_epoch()["k"].to_pylist() == [12, 22]


def test_a_task_whose_operator_is_not_registered_fails_alone_and_is_back_once_it_is(tmp_path: Path) -> None:
    task = begun(tmp_path, 10)
    with owned(tmp_path, 0) as client:
        assert client.task(task).info().state is TaskPhase.FAILED
        with pytest.raises(tidegate.TidegateError, match="no operator 'tag'"):
            client.task(task).read_epoch()
    with owned(tmp_path, 1) as client:
        assert client.task(task).read_epoch()["k"].to_pylist() == [11]


def test_a_task_that_its_operator_has_failed_goes_on_with_a_version_that_is_mended(tmp_path: Path) -> None:
    task = begun(tmp_path, 10, None)
    with owned(tmp_path, 1) as client, pytest.raises(tidegate.TaskFailed, match="no number"):
        client.task(task).read_epoch()
    with owned(tmp_path, 2) as client:
        with pytest.raises(tidegate.TaskFailed, match="no number"):
            client.task(task).read_epoch()
        client.task(task).recover()
        assert client.task(task).read_epoch()["k"].to_pylist() == [12, 2]


# ------------------------------------------------------------------------------------------------ databases


def named(folder: Path, *names: str) -> None:
    """The names of the numbers from 0 on, in the database."""
    with closing(sqlite3.connect(folder / "names.db")) as database, database:
        database.execute("DROP TABLE IF EXISTS names")
        database.execute("CREATE TABLE names (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO names VALUES (?, ?)", enumerate(names))


def test_an_epoch_that_looks_rows_up_in_a_database_is_read_from_its_start(tmp_path: Path) -> None:
    def service() -> tidegate.Client:
        return tidegate.local(data=tmp_path / "data", databases={"crm": tmp_path / "names.db"})

    looked_up = IndexLookupJoin(
        keys=[IndexLookupJoin.Key(left=0, right=0)], index="sql", options={"database": "crm"}, type="TYPE_INNER"
    )
    read_both = read("numbers", {"k": I64}), read("names", {"id": I64, "name": TEXT})
    named(tmp_path, "zero", "one", "two")
    with service() as client:
        task = client.create_task(plan(operated(looked_up, *read_both), ["k", "id", "name"]))
        task.add_split("numbers", pa.table({"k": [0, 1, 2]}))
        task.request_barrier()
        assert task.read_epoch()["name"].to_pylist() == ["zero", "one", "two"]
    named(tmp_path, "nothing", "nought", "one", "two")
    with service() as client:
        with pytest.raises(OutOfRange) as raised:
            client.service.next(task.id, Cursor(1, 1), wait=20.0)
        assert raised.value.reason == "EPOCH_RESTARTED"
        assert client.task(task.id).read_epoch()["name"].to_pylist() == ["nothing", "nought", "one"]
