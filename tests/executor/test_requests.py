"""A task is made once, however often its request arrives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tidegate.executor.service.call_registry import Requests
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.errors import InvalidRequest, NotFound, Refused
from tidegate.proto.values import PlanBytes, TaskOptions

from .fakes import PLAN, FakeComputation, FakeEngine, manager_of, rows

OPTIONS = TaskOptions()


@dataclass
class Planning(FakeEngine):
    """Waits in `prepare` until it may go on, and fails as often as it is told to."""

    may_plan: threading.Event = field(default_factory=threading.Event)
    planning: threading.Event = field(default_factory=threading.Event)
    failures: int = 0

    def prepare(self, *what: object) -> FakeComputation:
        self.planning.set()
        assert self.may_plan.wait(20)
        if self.failures:
            self.failures -= 1
            raise NotFound("not yet")
        return super().prepare(*what)  # type: ignore[arg-type]


@pytest.fixture
def engine() -> Planning:
    planning = Planning()
    planning.may_plan.set()
    return planning


@pytest.fixture
def service(engine: Planning) -> Iterator[TaskManager]:
    task_manager = manager_of(engine, threads=2)
    yield task_manager
    task_manager.close()


def test_a_request_made_again_is_answered_with_the_same_task(service: TaskManager) -> None:
    first = service.create_task(PLAN, OPTIONS, {"t": [rows(1)]}, request="r")
    assert service.create_task(PLAN, OPTIONS, {"t": [rows(1)]}, request="r").id == first.id
    assert service.create_task(PLAN, OPTIONS, {"t": [rows(1)]}, request="s").id != first.id
    assert len(service.list_tasks()) == 2


def test_without_a_name_every_request_makes_a_task(service: TaskManager) -> None:
    assert service.create_task(PLAN, OPTIONS, {}).id != service.create_task(PLAN, OPTIONS, {}).id


def test_one_that_arrives_while_the_first_is_planned_waits_for_its_task(service: TaskManager, engine: Planning) -> None:
    engine.may_plan.clear()
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(service.create_task, PLAN, OPTIONS, {}, request="r") for _ in range(2)]
        assert engine.planning.wait(20)
        engine.may_plan.set()
        assert calls[0].result(20).id == calls[1].result(20).id
    assert len(engine.computations) == 1


@pytest.mark.parametrize(
    ("plan", "options", "value"),
    [(PlanBytes(json="{}"), OPTIONS, 1), (PLAN, TaskOptions(channels=1, queue_bytes=7), 1), (PLAN, OPTIONS, 2)],
    ids=["plan", "options", "tables"],
)
def test_a_name_used_for_something_else_is_refused(
    service: TaskManager, plan: PlanBytes, options: TaskOptions, value: int
) -> None:
    service.create_task(PLAN, OPTIONS, {"t": [rows(1)]}, request="r")
    with pytest.raises(Refused, match="another plan, options or tables") as refused:
        service.create_task(plan, options, {"t": [rows(value)]}, request="r")
    assert refused.value.reason == "REQUEST_REUSED"


def test_what_failed_may_be_tried_again(service: TaskManager, engine: Planning) -> None:
    engine.failures = 1
    with pytest.raises(NotFound):
        service.create_task(PLAN, OPTIONS, {}, request="r")
    assert service.create_task(PLAN, OPTIONS, {}, request="r").id


def test_a_request_is_forgotten_with_its_task(service: TaskManager) -> None:
    first = service.create_task(PLAN, OPTIONS, {}, request="r")
    service.delete_task(first.id)
    assert service.create_task(PLAN, OPTIONS, {}, request="r").id != first.id


def test_a_name_beyond_its_length_is_refused(service: TaskManager) -> None:
    with pytest.raises(InvalidRequest, match="at most 200"):
        service.create_task(PLAN, OPTIONS, {}, request="r" * 201)


def test_a_task_that_is_deleted_while_it_is_made_leaves_its_name_free() -> None:
    living: set[str] = set()
    requests = Requests(living.__contains__)

    def make(task: str, *, deleted: bool) -> str:
        if deleted:
            requests.forget(task)
        else:
            living.add(task)
        return task

    assert requests.once("alice", "name", b"", lambda: make("1", deleted=True)) == "1"
    assert requests.once("alice", "name", b"other", lambda: make("2", deleted=False)) == "2"
    assert requests.once("alice", "name", b"other", lambda: make("3", deleted=False)) == "2"
