"""Ceilings hold, whatever calls come at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field

import pytest

from tidegate.executor.api.ownership import act_for
from tidegate.executor.runtime.ceilings import Ceilings
from tidegate.executor.service.manager import TaskManager
from tidegate.proto.errors import Exhausted, NotFound
from tidegate.proto.values import TaskOptions

from ..waiting import until
from .fakes import PLAN, FakeComputation, FakeEngine, manager_of

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
