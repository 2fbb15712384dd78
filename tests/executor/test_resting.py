"""A task that is idle gives back its engine, and has it again in the next epoch."""

from __future__ import annotations

import random
import sys
import threading
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


@pytest.mark.parametrize("kind", KINDS, ids=range(len(KINDS)))
def test_answers_are_the_same_after_a_rest(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "IDLE_SECONDS", 0.05)
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
