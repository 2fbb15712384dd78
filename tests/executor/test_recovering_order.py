"""The order in which durable tasks come back: a call waits for its own task, and not for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tidegate.executor.service.recovering import Recovering
from tidegate.proto.errors import Unavailable

TASKS = "abcd"
SECONDS = 20


class Gated:
    """Brings tasks back, each once its gate is open. `begun` says that one is at its gate."""

    def __init__(self) -> None:
        self.begun = {task: threading.Event() for task in TASKS}
        self.gates = {task: threading.Event() for task in TASKS}
        stored = [SimpleNamespace(identity=task) for task in TASKS]
        self.recovering = Recovering(stored, self._recover)  # type: ignore[arg-type]

    def _recover(self, task: SimpleNamespace) -> None:
        self.begun[task.identity].set()
        assert self.gates[task.identity].wait(SECONDS)

    def open(self, *tasks: str) -> None:
        for task in tasks:
            self.gates[task].set()


@pytest.fixture
def gated() -> Iterator[Gated]:
    gated = Gated()
    gated.recovering.start()
    assert gated.begun["a"].wait(SECONDS)
    yield gated
    gated.open(*TASKS)
    gated.recovering.close()


def test_a_task_that_is_asked_for_is_the_next_one_and_its_caller_waits_for_no_other(gated: Gated) -> None:
    for task in ("c", "d"):
        with pytest.raises(Unavailable):
            gated.recovering.ask(task)
    with ThreadPoolExecutor() as callers:
        called = [callers.submit(gated.recovering.need, task) for task in ("c", "d")]
        gated.open("a", "c", "d")
        for call in called:
            call.result(SECONDS)
        assert gated.begun["b"].wait(SECONDS)  # at its gate, which is closed
        assert "b" in gated.recovering


def test_a_task_is_taken_out_while_another_one_comes_back(gated: Gated) -> None:
    assert gated.recovering.take("b") is not None
    assert gated.recovering.take("b") is None
    with ThreadPoolExecutor() as callers:
        taken = callers.submit(gated.recovering.take, "a")
        gated.open("a")
        assert taken.result(SECONDS) is None
    assert not gated.begun["b"].is_set()


def test_a_task_that_has_failed_as_it_came_back_comes_back_once_more(gated: Gated) -> None:
    once_more = SimpleNamespace(identity="a")
    with ThreadPoolExecutor() as callers:
        again = callers.submit(gated.recovering.again, once_more)  # type: ignore[arg-type]
        while gated.recovering._stored["a"] is not once_more:
            time.sleep(0.001)
        gated.begun["a"].clear()
        gated.open("a")
        again.result(SECONDS)
    assert gated.begun["a"].is_set()
    assert "a" not in gated.recovering
