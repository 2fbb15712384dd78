"""Planning ends: when it takes too long, and when nobody waits for an answer about a plan."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator

import pytest

import tidegate
from benchmarks import plan_growth
from tidegate.executor.service import planning_bounds
from tidegate.operators.core.interrupts import Watch, looking
from tidegate.planner.decode import decode_plan
from tidegate.planner.ir.walk import unroll
from tidegate.planner.prepare import prepare
from tidegate.proto.current_call import work_for
from tidegate.proto.errors import PlanError, Unavailable
from tidegate.proto.values import Mode, PlanBytes, TaskOptions

SIZE = 1_000
SHAPES = ("cases", "columns computed", "measures", "windows", "sources of a union", "sources that intersect")


def text(shape: str, size: int = SIZE) -> str:
    return plan_growth.plan(plan_growth.SHAPES[shape], size)


class Stopped(Exception):
    pass


def stops() -> None:
    raise Stopped


def looks(work: Callable[[], object]) -> int:
    """How often the work looks whether it is to stop."""
    count = 0

    def look() -> None:
        nonlocal count
        count += 1

    with looking(Watch(look)):
        work()
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_planning_looks_whether_it_is_to_stop_as_often_as_the_plan_is_large(shape: str) -> None:
    def work(size: int) -> Callable[[], object]:
        return lambda: prepare(decode_plan(PlanBytes(json=text(shape, size))), TaskOptions())

    work(SIZE)()  # to find a function's form looks as well, and is remembered
    once, twice = looks(work(SIZE // 2)), looks(work(SIZE))
    assert once > SIZE // 2_000
    assert 1.5 * once <= twice <= 2.5 * once + 2


def test_a_walk_ends_where_it_is_to_stop() -> None:
    def chain(at: int) -> Generator[int, int, int]:
        return (yield at + 1)

    with looking(Watch(stops)), pytest.raises(Stopped):
        unroll(chain, 0)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_plan_that_takes_too_long_is_refused(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_bounds, "MOST_SECONDS", 0.0)
    with tidegate.local() as client:
        with pytest.raises(PlanError, match="more than 0 s to plan: split it") as refused:
            client.create_task(text("columns computed"), mode=mode.value)
        assert refused.value.reason == "PLAN_TOO_LARGE"
        assert {problem.reason for problem in client.validate(text("columns computed"))} == {"PLAN_TOO_LARGE"}


def test_nobody_plans_for_a_caller_that_has_left() -> None:
    def left() -> None:
        work_for(lambda: True)
        client.explain(text("columns computed"))

    with tidegate.local() as client, pytest.raises(Unavailable, match="disconnected while its plan was planned"):
        contextvars.copy_context().run(left)
