"""`Task.feed_epoch`: an epoch's splits and its seal as one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.journal.journal_database import JournalDatabase, Statement
from tidegate.proto.errors import Exhausted, InvalidRequest, Refused
from tidegate.proto.values import AddRequest
from tidegate.task import Task

from ..executor.fakes import SCHEMA, FakeEngine
from .conftest import PLAN, Start


def numbers(*values: int) -> pa.Table:
    return pa.table([values], schema=SCHEMA)


def read(task: Task, epochs: int) -> list[list[int]]:
    return [task.read_epoch()["x"].to_pylist() for _ in range(epochs)]


def test_epochs_are_fed_ahead_of_their_reader(start: Start) -> None:
    with start() as task:
        assert [task.feed_epoch({"a": numbers(number)}) for number in (1, 2, 3)] == [1, 2, 3]
        assert read(task, 3) == [[1], [2], [3]]


def test_several_splits_of_several_sources_become_one_epoch(open_client: Callable[..., Client]) -> None:
    with open_client(FakeEngine(sources=("a", "b"))).create_task(b"plan") as task:
        assert task.feed_epoch({"a": [numbers(1), numbers(2)], "b": numbers(3)}) == 1
        assert sorted(task.read_epoch()["x"].to_pylist()) == [1, 2, 3]
        assert {name: task.statistics().splits[name].added for name in ("a", "b")} == {"a": 2, "b": 1}


def test_an_epoch_without_splits_is_empty(start: Start) -> None:
    with start() as task:
        assert task.feed_epoch({}) == 1
        assert read(task, 1) == [[]]


def test_it_takes_turns_with_the_other_calls_that_feed(start: Start) -> None:
    with start() as task:
        assert task.feed_epoch({"a": numbers(1)}) == 1
        assert read(task, 1) == [[1]]
        assert task.run_epoch({"a": numbers(2)}).table()["x"].to_pylist() == [2]
        assert task.add_split("a", numbers(3)).sequence == 3
        assert task.request_barrier() == 3
        assert task.feed_epoch({"a": numbers(4)}) == 4
        assert read(task, 2) == [[3], [4]]


def test_it_is_refused_while_splits_are_not_sealed(start: Start) -> None:
    with start() as task:
        task.add_split("a", numbers(1))
        with pytest.raises(Refused, match="not sealed") as refused:
            task.feed_epoch({"a": numbers(2)})
        assert refused.value.reason == "UNSEALED_SPLITS"


def test_it_is_refused_when_somebody_else_has_added_unseen(start: Start) -> None:
    with start() as task:
        Task(task.service, task.info()).add_split("a", numbers(1))
        with pytest.raises(Refused):
            task.feed_epoch({"a": numbers(2)})


def test_a_call_that_is_refused_adds_nothing(open_client: Callable[..., Client]) -> None:
    with open_client(FakeEngine()).create_task(b"plan", max_pending_epochs=1) as task:
        task.feed_epoch({"a": numbers(1)})
        with pytest.raises(Exhausted):
            task.feed_epoch({"a": numbers(2)})
        assert task.statistics().splits["a"].added == 1
        assert read(task, 1) == [[1]]
        task.acknowledge()
        assert task.feed_epoch({"a": numbers(4)}) == 2
        assert read(task, 1) == [[4]]


def test_a_call_that_was_refused_is_repeated_and_adds_nothing_twice(open_client: Callable[..., Client]) -> None:
    with open_client(FakeEngine()).create_task(b"plan", max_pending_epochs=2) as task:
        for number in (1, 2):
            task.feed_epoch({"a": numbers(number)})
        with pytest.raises(Exhausted) as full:
            task.feed_epoch({"a": [numbers(3), numbers(4)]})
        assert full.value.reason == "TOO_MANY_PENDING_EPOCHS"
        assert read(task, 2) == [[1], [2]]
        task.acknowledge()
        assert task.feed_epoch({"a": [numbers(3), numbers(4)]}) == 3
        assert read(task, 1) == [[3, 4]]


def test_an_epoch_of_several_calls_is_repeated_as_a_whole(
    open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.transport.feeder.STEP_SPLITS", 1)
    with open_client(FakeEngine()).create_task(b"plan", max_pending_epochs=2) as task:
        for number in (1, 2):
            task.feed_epoch({"a": numbers(number)})
        splits = {"a": [numbers(4), numbers(5), numbers(6)]}
        with pytest.raises(Exhausted):
            task.feed_epoch(splits)
        assert read(task, 2) == [[1], [2]]
        task.acknowledge()
        assert task.feed_epoch(splits) == 3
        assert read(task, 1) == [[4, 5, 6]]


def test_after_a_barrier_that_seals_a_refused_call_the_next_splits_are_new_ones(
    open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they have the rows of a split that the refused call had added."""
    monkeypatch.setattr("tidegate.transport.feeder.STEP_SPLITS", 1)
    with open_client(FakeEngine()).create_task(b"plan") as task:
        with pytest.raises(InvalidRequest):
            task.feed_epoch({"a": [numbers(1), numbers(2), 3]})  # type: ignore[list-item]
        assert task.request_barrier() == 1
        assert not task.add_split("a", numbers(1)).duplicate
        assert task.request_barrier() == 2
        assert task.feed_epoch({"a": numbers(1)}) == 3
        assert read(task, 3) == [[1, 2], [1], [1]]


@pytest.mark.parametrize("kind", ["epoch", "transaction"])
def test_a_reader_that_a_refused_call_has_read_is_refused(open_client: Callable[..., Client], kind: str) -> None:
    """It has no rows any more: its split would be empty."""
    with open_client(FakeEngine()).create_task(b"plan", max_pending_epochs=1) as task:
        feed: Callable[[pa.RecordBatchReader], object] = {
            "epoch": lambda reader: task.feed_epoch({"a": reader}),
            "transaction": lambda reader: task.transact("x", 1, {"a": reader}, seal=True),
        }[kind]
        task.feed_epoch({"a": numbers(1)})
        reader = numbers(2).to_reader()
        with pytest.raises((Exhausted, Refused)):
            feed(reader)
        assert read(task, 1) == [[1]]
        task.acknowledge()
        with pytest.raises(InvalidRequest, match="make a new reader"):
            feed(reader)
        feed(numbers(2).to_reader())
        assert read(task, 1) == [[2]]


def test_one_call_of_the_service_has_the_splits_and_the_seal(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with client.create_task(PLAN) as task:
        asked: list[AddRequest] = []
        add = task.service.add_splits

        def noted(name: str, request: AddRequest) -> object:
            asked.append(request)
            return add(name, request)

        monkeypatch.setattr(task.service, "add_splits", noted)
        task.feed_epoch({"a": [numbers(1), numbers(2)]})
        [request] = asked
        assert (len(tuple(request.splits)), request.seal is not None) == (2, True)


def test_threads_that_feed_epochs_take_turns(client: Client) -> None:
    with client.create_task(PLAN, max_pending_epochs=30) as task, ThreadPoolExecutor(4) as threads:
        fed = {
            number: threads.submit(task.feed_epoch, {"a": [numbers(number), numbers(-number)]})
            for number in range(101, 131)
        }
        rows = dict(enumerate(read(task, 30) if all(one.result(60) for one in fed.values()) else [], 1))
        assert {number: rows[one.result()] for number, one in fed.items()} == {
            number: [number, -number] for number in fed
        }


def test_the_wishes_of_a_barrier_are_handed_on(start: Start) -> None:
    with start() as task:
        task.feed_epoch({"a": numbers(1)}, watermarks={"a": 7})
        assert next(task.epochs(60)).watermark == 7
        with pytest.raises(InvalidRequest):
            task.feed_epoch({"a": numbers(1)}, watermarks={"a": "soon"})  # type: ignore[dict-item]


def test_an_epoch_of_a_durable_task_is_fed_with_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[object] = []
    commit = JournalDatabase.commit

    def counted(database: JournalDatabase, statements: Iterable[Statement]) -> None:
        commits.append(None)
        commit(database, statements)

    with tidegate.local(data=tmp_path) as client, client.create_task(PLAN) as task:
        monkeypatch.setattr(JournalDatabase, "commit", counted)
        assert task.feed_epoch({"a": [numbers(1), numbers(2)]}) == 1
        assert len(commits) == 1
        assert read(task, 1) == [[1, 2]]
