"""Calls that wait for slow folders keep no other call waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.executor.plans.dataflow import PlanComputation
from tidegate.executor.service.embedded import open_service
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.operators.sources import listing
from tidegate.proto.errors import InvalidRequest

from ..executor.plans import passed_through
from .running import served

AT_ONCE = 2
"""So many calls of a kind the server has threads for."""
SLOW = 5
PLAN = passed_through("a", "b")


class SlowFolder:
    """A folder that answers no listing before `answers` is set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listings = threading.Semaphore(0)
        self.answers = threading.Event()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFolder]:
    slow = SlowFolder(tmp_path / "slow")
    slow.path.mkdir()
    pq.write_table(pa.table({"x": [7]}), slow.path / "0.parquet")
    files = listing.Listing.files

    def slowly(self: listing.Listing) -> list[str]:
        slow.listings.release()
        assert slow.answers.wait(40)
        return files(self)

    monkeypatch.setattr(listing.Listing, "files", slowly)
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


def test_plans_are_read_while_tables_of_many_tasks_are_listed(client: tidegate.Client, folder: SlowFolder) -> None:
    def task(_: int) -> list[int]:
        with client.create_task(PLAN, tables={"b": str(folder.path)}) as task_of_call:
            return task_of_call.run_epoch({"a": pa.table({"x": [1]})}).table().column(0).to_pylist()

    with ThreadPoolExecutor(SLOW) as callers:
        answers = callers.map(task, range(SLOW))
        for _ in range(SLOW):
            assert folder.listings.acquire(timeout=20)
        client.validate(PLAN)
        with client.create_task(passed_through("a")) as other:
            assert other.run_epoch({"a": pa.table({"x": [1]})}).table().num_rows == 1
        folder.answers.set()
        assert list(answers) == [[1, 7]] * SLOW


def test_control_calls_are_answered_while_calls_of_each_other_kind_have_all_their_threads(
    client: tidegate.Client, folder: SlowFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, go_on = threading.Semaphore(0), threading.Event()

    def stand_still(*_: object) -> NoReturn:
        stuck.release()
        assert go_on.wait(40)
        raise InvalidRequest("it has stood still")

    ended, *fed = (client.create_task(passed_through("a")) for _ in range(1 + 2 * AT_ONCE))
    monkeypatch.setattr(PlanEngine, "validate", stand_still)
    monkeypatch.setattr(PlanComputation, "accept_inline", stand_still)
    with ThreadPoolExecutor(3 * AT_ONCE) as callers:
        for given_rows, given_folder in zip(fed[:AT_ONCE], fed[AT_ONCE:], strict=True):
            callers.submit(client.validate, PLAN)
            callers.submit(given_rows.add_split, "a", pa.table({"x": [1]}))
            callers.submit(given_folder.add_split, "a", str(folder.path))
        for _ in range(AT_ONCE):
            for reached in (stuck, stuck, folder.listings):
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
