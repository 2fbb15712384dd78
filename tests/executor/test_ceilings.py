"""Ceilings hold, whatever calls come at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tidegate.executor.api.ownership import act_for
from tidegate.executor.runtime.ceilings import Ceilings
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.tasks import task
from tidegate.proto.current_call import work_for
from tidegate.proto.errors import Exhausted, NotFound
from tidegate.proto.values import AddRequest, Seal, TaskOptions, TaskPhase

from ..waiting import until
from .fakes import PLAN, FakeComputation, FakeEngine, manager_of, rows

CALLS = 8


@dataclass
class SlowEngine(FakeEngine):
    """Plans only once it may, and counts the calls that wait for it."""

    may_plan: threading.Event = field(default_factory=threading.Event)
    waiting: list[object] = field(default_factory=list)
    fails: bool = False

    def prepare(self, *what: object) -> FakeComputation:
        self.waiting.append(what)
        assert self.may_plan.wait(60)
        if self.fails:
            raise NotFound("no such file")
        return super().prepare(*what)  # type: ignore[arg-type]


@dataclass
class Racing:
    """Calls that make tasks at the same time, and their outcomes."""

    manager: TaskManager
    engine: SlowEngine
    created: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def run(self, options: TaskOptions, principal: str = "alice") -> None:
        threads = [
            threading.Thread(target=copy_context().run, args=(self._create, principal, options)) for _ in range(CALLS)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(self.engine.waiting) + len(self.refused) == CALLS)
        self.engine.may_plan.set()
        for thread in threads:
            thread.join()

    def _create(self, principal: str, options: TaskOptions) -> None:
        act_for(principal)
        try:
            self.created.append(self.manager.create_task(PLAN, options, {}).id)
        except Exhausted as refused:
            self.refused.append(refused.reason)
        except NotFound as failed:
            self.failed.append(failed.reason)


@contextmanager
def racing(ceilings: Ceilings) -> Iterator[Racing]:
    engine = SlowEngine()
    manager = manager_of(engine, threads=1, ceilings=ceilings, principals=True)
    try:
        yield Racing(manager, engine)
    finally:
        engine.may_plan.set()
        manager.close()


@pytest.mark.parametrize("ceilings", [Ceilings(tasks=3), Ceilings(tasks_of_principal=3)])
def test_calls_at_the_same_time_make_no_more_tasks_than_there_may_be(ceilings: Ceilings) -> None:
    with racing(ceilings) as race:
        race.run(TaskOptions())
        assert len(race.created) == 3
        assert race.refused == ["TOO_MANY_TASKS"] * (CALLS - 3)


def test_calls_at_the_same_time_have_no_more_of_an_option_than_a_principal_may() -> None:
    with racing(Ceilings(options_of_principal={"memory_limit": 5 << 30})) as race:
        race.run(TaskOptions(memory_limit=2 << 30))
        assert len(race.created) == 2
        assert race.refused == ["PRINCIPAL_CEILING"] * (CALLS - 2)


def test_a_task_that_could_not_be_made_leaves_its_room_to_others() -> None:
    with racing(Ceilings(tasks=3)) as race:
        race.engine.fails = True
        race.run(TaskOptions())
        assert (len(race.failed), race.created) == (3, [])
        race.engine.fails = False
        race.engine.waiting.clear()
        race.refused.clear()
        race.run(TaskOptions())
        assert len(race.created) == 3


def test_a_ceiling_of_no_limit_lets_every_limit_pass() -> None:
    ceilings = Ceilings(options={"epoch_seconds": 0.0})
    for seconds in (0.0, 7.0):
        assert ceilings.allowed(TaskOptions(epoch_seconds=seconds)).epoch_seconds == seconds


def test_a_task_that_asks_for_no_limit_has_the_ceiling_and_a_warning_that_says_so() -> None:
    ceilings = Ceilings(options={"idle_seconds": 60.0, "epoch_seconds": 0.0})
    with contextlib.closing(manager_of(FakeEngine(), threads=1, ceilings=ceilings)) as manager:
        unlimited = manager.create_task(PLAN, TaskOptions(idle_seconds=0.0), {})
        limited = manager.create_task(PLAN, TaskOptions(idle_seconds=30.0), {})
    assert unlimited.options.idle_seconds == 60.0
    said = "idle_seconds=0 asks for no limit, but this server allows a task at most 60 seconds: the task has "
    assert unlimited.warnings == (f"{said}idle_seconds=60",)
    assert (limited.options.idle_seconds, limited.warnings) == (30.0, ())


# ------------------------------------------------------------------------------------------------ tasks of principals


@contextmanager
def half_each(engine: FakeEngine) -> Iterator[Callable[..., Any]]:
    """A service of four tasks, two for each principal: calls its method of a name for a principal."""
    manager = manager_of(engine, threads=2, ceilings=Ceilings(tasks=4, tasks_of_principal=2), principals=True)

    def call(principal: str, method: str, *arguments: object, **named: object) -> Any:
        def acting() -> object:
            act_for(principal)
            return getattr(manager, method)(*arguments, **named)

        return copy_context().run(acting)

    try:
        yield call
    finally:
        manager.close()


def created(call: Callable[..., Any], principal: str) -> str | None:
    """The id of a new task; None if there is no room for it."""
    try:
        return str(call(principal, "create_task", PLAN, TaskOptions(), {}).id)
    except Exhausted:
        return None


def test_a_principal_that_takes_all_it_can_leaves_another_its_half() -> None:
    with half_each(FakeEngine()) as call:
        assert [bool(created(call, "alice")) for _ in range(4)] == [True, True, False, False]
        assert [bool(created(call, "bob")) for _ in range(4)] == [True, True, False, False]


def test_tasks_that_failed_or_were_cancelled_count_until_they_are_deleted() -> None:
    with half_each(FakeEngine(function=broken)) as call:
        failed, cancelled = (created(call, "alice") for _ in range(2))
        call("alice", "add_splits", failed, AddRequest(splits=[("a", rows(1), None)], seal=Seal()))
        until(lambda: call("alice", "get_task", failed).state is TaskPhase.FAILED)
        call("alice", "cancel_task", cancelled)
        assert created(call, "alice") is None
        for ended in (failed, cancelled):
            call("alice", "delete_task", ended)
        assert created(call, "alice")
        assert created(call, "alice")


def broken(_: pa.RecordBatch) -> pa.RecordBatch:
    raise ValueError("no")


def test_no_other_principal_gives_the_room_of_a_task_back() -> None:
    with half_each(FakeEngine()) as call:
        tasks = [created(call, "alice") for _ in range(2)]
        with pytest.raises(NotFound):
            call("bob", "delete_task", tasks[0])
        assert created(call, "alice") is None


def test_a_deleted_task_that_goes_on_working_counts_until_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "LINGERING_SECONDS", 0.0)
    begun, goes_on = threading.Event(), threading.Event()

    def stubborn(batch: pa.RecordBatch) -> pa.RecordBatch:
        begun.set()
        assert goes_on.wait(60)
        return batch

    with half_each(FakeEngine(function=stubborn)) as call:
        working, _ = (created(call, "alice") for _ in range(2))
        call("alice", "add_splits", working, AddRequest(splits=[("a", rows(1), None)], seal=Seal()))
        assert begun.wait(60)
        call("alice", "delete_task", working)
        assert created(call, "bob")
        assert created(call, "alice") is None
        goes_on.set()
        until(lambda: created(call, "alice"))


def test_a_task_is_deleted_whose_creator_has_left_and_has_not_named_the_request() -> None:
    engine = FakeEngine()
    with half_each(engine) as call:
        for request, left in (("", True), ("named", True), ("", False)):
            leaving(call, "alice", request=request, left=left)
        assert [computation.closed.is_set() for computation in engine.computations] == [True, False, False]
        assert len(call("alice", "list_tasks")) == 2


def leaving(call: Callable[..., Any], principal: str, *, request: str, left: bool) -> None:
    """Make a task for a caller that does not wait for the answer any more."""

    def create() -> None:
        work_for(lambda: left)
        call(principal, "create_task", PLAN, TaskOptions(), {}, request=request)

    copy_context().run(create)
