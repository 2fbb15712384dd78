"""A task that is idle gives back its engine, and has it again in the next epoch."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.executor.plans.dataflow import PlanComputation
from tidegate.executor.tasks import resting
from tidegate.executor.tasks.resting import Resting
from tidegate.graph import TaskGraph
from tidegate.proto.values import MIB

from ..server.fake_process import ServerProcess, server_process
from ..server.load_epochs import KINDS, Fed, Kind
from ..waiting import until
from .fakes import FakeEngine, running

IDLE = 40


def test_a_task_rests_once_it_is_idle_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "IDLE_SECONDS", 0.05)
    engine = FakeEngine()
    with running(engine) as task:
        computation = engine.computations[0]
        for epoch in (1, 2):
            task.add(epoch)
            task.seal()
            assert task.epoch(epoch) == [epoch]
            before = epoch - 1
            until(lambda before=before: computation.rests > before)
        asked = computation.rests
        threading.Event().wait(0.2)
        assert computation.rests == asked


def test_a_rest_is_due_until_the_task_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "IDLE_SECONDS", 1e-9)
    calls: list[Callable[[], None]] = []
    woken = threading.Event()
    rest = Resting(lambda _, call: calls.append(call), woken.set)  # type: ignore[arg-type, func-returns-value]
    rest.used()
    assert not rest.due
    calls[0]()
    assert rest.due
    assert woken.is_set()
    rest.used()
    assert not rest.due


class Clock:
    """A time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self._calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def call_later(self, seconds: float, call: Callable[[], None]) -> threading.Timer:
        self._calls.append((self.now + seconds, call))
        return threading.Timer(1e9, call)

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [one for one in self._calls if one[0] <= end]:
            self._calls.remove(first := min(due, key=lambda one: one[0]))
            self.now = first[0]
            first[1]()
        self.now = end


class Task:
    """A task that rests as soon as it may, and counts its rests."""

    def __init__(self, clock: Clock) -> None:
        self.rests = 0
        self.resting = Resting(clock.call_later, self._rest)  # type: ignore[arg-type]
        self.resting.used()

    def _rest(self) -> None:
        self.rests += 1
        self.resting.begun()


@pytest.mark.parametrize(("interval", "rests"), [(2.0, 0), (4.0, 1), (15.0, 1), (50.0, 1), (70.0, 10)])
def test_a_task_that_is_used_at_intervals_rests_once_at_most(
    interval: float, rests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    task = Task(clock)
    for _ in range(10):
        clock.wait(interval)
        task.resting.used()
    assert task.rests == rests
    clock.wait(resting.LONGEST_SECONDS)
    assert task.rests == rests + 1
    task.resting.close()


def test_a_task_that_is_not_used_at_intervals_any_more_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    task = Task(clock)
    clock.wait(4.0)
    task.resting.used()
    clock.wait(11.0)
    assert task.rests == 1
    clock.wait(2.0)
    assert task.rests == 2
    clock.wait(500.0)
    task.resting.used()
    clock.wait(resting.IDLE_SECONDS)
    assert task.rests == 3


def test_only_so_many_tasks_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "MOST_PATIENT", 2)
    clock = Clock(monkeypatch)
    tasks = [Task(clock) for _ in range(3)]
    for _ in range(3):
        clock.wait(4.0)
        for task in tasks:
            task.resting.used()
    assert [task.rests for task in tasks] == [1, 1, 3]
    tasks[0].resting.close()
    for _ in range(2):
        clock.wait(4.0)
        tasks[2].resting.used()
    assert tasks[2].rests == 4
    for task in tasks:
        task.resting.close()


@pytest.mark.parametrize("kind", KINDS, ids=range(len(KINDS)))
def test_answers_are_the_same_after_a_rest(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(resting, "MOST_PATIENT", 0)
    draw = random.Random(3)
    with tidegate.local() as client:
        fed = Fed(client, kind)
        for _ in range(3):
            assert fed.epoch(draw)[1]
            plans = fed.task.statistics().plans
            until(lambda plans=plans: planned_again(fed, draw, plans))


def planned_again(fed: Fed, draw: random.Random, plans: int) -> bool:
    """True if an epoch after a pause is right, and had to be planned: what was planned before counts on."""
    threading.Event().wait(0.3)
    assert fed.task.statistics().plans >= plans
    assert fed.epoch(draw)[1]
    return fed.task.statistics().plans > plans


def test_an_iterator_goes_on_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(resting, "MOST_PATIENT", 0)
    rests = []
    rest = PlanComputation.rest
    monkeypatch.setattr(PlanComputation, "rest", lambda self: (rest(self), rests.append(1)))
    graph = TaskGraph()
    graph.collect(graph.read_iterable(iter([(n,) for n in range(9)]), pa.schema([("n", pa.int64())]), epoch_rows=3))
    with tidegate.local() as client, client.create_task(graph) as task:
        numbers = []
        for _ in range(3):
            before = len(rests)
            numbers += task.run_epoch({}).table()["n"].to_pylist()
            until(lambda before=before: len(rests) > before)
    assert numbers == list(range(9))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_task_takes_at_most_a_mebibyte_and_no_thread() -> None:
    draw = random.Random(7)
    command = ("tidegate.server.cli", "serve", "--listen=127.0.0.1:0", "--no-flight")
    with server_process(*command) as server, tidegate.connect(server.address, flight=False) as client:
        first = idle(client, draw)
        memory, threads = settled(server), threads_of(server)  # with what the process keeps for so many tasks at work
        tasks = idle(client, draw)
        until(lambda: server.memory("VmRSS") - memory <= IDLE * MIB)
        until(lambda: threads_of(server) <= threads + 2)  # the timers' and another of the pool
        assert all(task.epoch(draw)[1] for task in (*first, *tasks))


def idle(client: tidegate.Client, draw: random.Random) -> list[Fed]:
    """So many tasks, each after an epoch."""
    tasks = [Fed(client, KINDS[number % len(KINDS)]) for number in range(IDLE)]
    assert all(task.epoch(draw)[1] for task in tasks)
    return tasks


def settled(server: ServerProcess) -> int:
    """The resident memory once the tasks rest: it falls, and then it stays for two seconds."""
    sizes = [server.memory("VmRSS")]
    while len(sizes) < 9 or max(sizes[-9:]) - min(sizes[-9:]) > MIB or sizes[-1] > max(sizes) - 8 * MIB:
        threading.Event().wait(0.25)
        sizes.append(server.memory("VmRSS"))
    return sizes[-1]


def threads_of(server: ServerProcess) -> int:
    return len(list(Path("/proc", str(server.process.pid), "task").iterdir()))
