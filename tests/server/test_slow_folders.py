"""Calls that wait for slow folders and files keep no other call waiting."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.executor.service.call_registry import Requests
from tidegate.executor.service.embedded import open_service
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.operators.sources import listing
from tidegate.operators.sources.formats.parquet import Parquet
from tidegate.proto.errors import InvalidRequest

from ..executor.plans import passed_through
from .running import served

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE = 2
"""So many calls of a kind the server has threads for."""
SLOW = 5
PLAN = passed_through("a", "b")


class SlowFolder:
    """A folder with a file. It answers nothing of one kind before `answers` is set: no listing, or no opening."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked = threading.Semaphore(0)
        self.answers = threading.Event()
        path.mkdir()
        pq.write_table(pa.table({"x": [7]}), path / "0.parquet")

    def slowly(self, function: Callable[P, R]) -> Callable[P, R]:
        def slow(*args: P.args, **kwargs: P.kwargs) -> R:
            if any(str(self.path) in getattr(one, "path", getattr(one, "_path", "")) for one in args):
                self.asked.release()
                assert self.answers.wait(40)
            return function(*args, **kwargs)

        return slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFolder]:
    """It is slow to list."""
    slow = SlowFolder(tmp_path / "slow")
    monkeypatch.setattr(listing.Listing, "files", slow.slowly(listing.Listing.files))
    yield slow
    slow.answers.set()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFolder]:
    """Its files are slow to open."""
    slow = SlowFolder(tmp_path / "slow")
    monkeypatch.setattr(Parquet, "open", slow.slowly(Parquet.open))
    yield slow
    slow.answers.set()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[tidegate.Client]:
    service = open_service(roots=[tmp_path], spill_directory=tmp_path)
    with (
        served(service, planning_calls=AT_ONCE, feeding_calls=AT_ONCE) as address,
        tidegate.connect(address) as connected,
    ):
        yield connected
    service.close()


@pytest.mark.parametrize("slow", ["folder", "files"])
def test_plans_are_read_while_tables_of_many_tasks_are_listed_or_opened(
    slow: str, client: tidegate.Client, request: pytest.FixtureRequest
) -> None:
    folder: SlowFolder = request.getfixturevalue(slow)

    def task(_: int) -> list[int]:
        with client.create_task(PLAN, tables={"b": str(folder.path)}) as task_of_call:
            return task_of_call.run_epoch({"a": pa.table({"x": [1]})}).table().column(0).to_pylist()

    with ThreadPoolExecutor(SLOW) as callers:
        answers = callers.map(task, range(SLOW))
        for _ in range(SLOW):
            assert folder.asked.acquire(timeout=20)
        client.validate(PLAN)
        with client.create_task(passed_through("a")) as other:
            assert other.run_epoch({"a": pa.table({"x": [1]})}).table().num_rows == 1
        folder.answers.set()
        assert list(answers) == [[1, 7]] * SLOW


def test_files_are_added_found_and_read_while_others_wait_for_slow_folders(
    client: tidegate.Client, folder: SlowFolder, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    other = client.create_task(passed_through("a"))
    tasks = [client.create_task(passed_through("a")) for _ in range(2 * SLOW)]
    with ThreadPoolExecutor(3 * SLOW) as callers:
        added = [callers.submit(task.add_split, "a", str(folder.path)) for task in tasks[:SLOW]]
        epochs = [callers.submit(task.run_epoch, {"a": str(folder.path)}) for task in tasks[SLOW:]]
        listings = [callers.submit(other.find_files, "a", str(folder.path)) for _ in range(SLOW)]
        for _ in range(3 * SLOW):
            assert folder.asked.acquire(timeout=20)
        assert len(other.find_files("a", str(tmp_path / "other.parquet"))) == 1
        assert other.run_epoch({"a": str(tmp_path / "other.parquet")}).table()["x"].to_pylist() == [1]
        folder.answers.set()
        assert [len(call.result()) for call in listings] == [1] * SLOW
        assert [call.result().table()["x"].to_pylist() for call in epochs] == [[7]] * SLOW
        for call in added:
            call.result()


def test_plans_are_read_while_the_types_of_their_tables_are_slow_to_come(
    client: tidegate.Client, files: SlowFolder
) -> None:
    read = {"read": {"baseSchema": {"names": ["x"]}, "namedTable": {"names": ["a"]}}}
    untyped = json.dumps({"relations": [{"root": {"input": read, "names": ["x"]}}]})
    with ThreadPoolExecutor(SLOW) as callers:
        tasks = [callers.submit(client.create_task, untyped, tables={"a": str(files.path)}) for _ in range(SLOW)]
        for _ in range(SLOW):
            assert files.asked.acquire(timeout=20)
        client.validate(PLAN)
        files.answers.set()
        for task in tasks:
            task.result().delete()


def test_a_request_that_comes_again_and_again_keeps_no_thread_from_the_task_that_it_asked_for(
    client: tidegate.Client, folder: SlowFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, once = threading.Semaphore(0), Requests.once

    def counted(self: Requests, *request: Any) -> str:
        arrived.release()
        return once(self, *request)

    def create(_: int) -> str:
        return client.create_task(PLAN, tables={"b": str(folder.path)}).id

    monkeypatch.setattr(Requests, "once", counted)
    monkeypatch.setattr("tidegate.transport.remote.secrets.token_hex", lambda _: "the same")
    with ThreadPoolExecutor(SLOW) as callers:
        tasks = callers.map(create, range(SLOW))
        for _ in range(SLOW):
            assert arrived.acquire(timeout=20)
        client.validate(PLAN)
        folder.answers.set()
        assert len(set(tasks)) == 1


def test_control_calls_are_answered_while_calls_of_each_other_kind_have_all_their_threads(
    client: tidegate.Client, folder: SlowFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, go_on = threading.Semaphore(0), threading.Event()

    def stand_still(*_: object) -> NoReturn:
        stuck.release()
        assert go_on.wait(40)
        raise InvalidRequest("it has stood still")

    add = TaskManager.add_splits

    def add_splits(self: TaskManager, task: str, *splits: Any, **how: Any) -> Any:
        return add(self, task, *splits, **how) if task in folders else stand_still()

    ended, *fed = (client.create_task(passed_through("a")) for _ in range(1 + 2 * AT_ONCE))
    folders = {task.id for task in fed[AT_ONCE:]}
    monkeypatch.setattr(PlanEngine, "validate", stand_still)
    monkeypatch.setattr(TaskManager, "add_splits", add_splits)
    with ThreadPoolExecutor(3 * AT_ONCE) as callers:
        for given_rows, given_folder in zip(fed[:AT_ONCE], fed[AT_ONCE:], strict=True):
            callers.submit(client.validate, PLAN)
            callers.submit(given_rows.add_split, "a", pa.table({"x": [1]}))
            callers.submit(given_folder.add_split, "a", str(folder.path))
        for _ in range(AT_ONCE):
            for reached in (stuck, stuck, folder.asked):
                assert reached.acquire(timeout=20)
        try:
            assert len(client.tasks()) == 1 + len(fed)
            assert ended.statistics().splits["a"].added == 0
            ended.cancel()
            ended.delete()
            assert {task.id for task in client.tasks()} == {task.id for task in fed}
        finally:
            go_on.set()
            folder.answers.set()
