"""Signals at the worst moment, and processes that end: a loader leaves no task and no thread."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.training import Loader
from tidegate.training.building.window_prefetch import Prefetch
from tidegate.training.loader_reading import Reading
from tidegate.training.sources.uninterrupted import uninterrupted
from tidegate.training.split_reader import SplitReader, SplitReaders

from ...waiting import until
from .conftest import numbers

pytestmark = pytest.mark.usefixtures("ctrl_c")


def loader(client: Client, folder: Path, **options: Any) -> Loader:
    return Loader(client, numbers(), {"samples": folder}, batch_size=16, **options)


def interrupted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, before: bool = False) -> None:
    """Let the first call of a method be interrupted: when it has done its work, or before."""
    method, calls = getattr(owner, name), []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        result = None if before and len(calls) == 1 else method(*args, **kwargs)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.01)  # in the main thread the signal ends this, and the result is lost
        return method(*args, **kwargs) if before and len(calls) == 1 else result

    monkeypatch.setattr(owner, name, call)


def is_clean(client: Client) -> bool:
    building = [thread for thread in threading.enumerate() if thread.name.startswith("tidegate-training")]
    return not client.tasks() and not building


@pytest.mark.parametrize("prefetch", [0, 50])
def test_ctrl_c_while_a_task_is_made_leaves_none(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, prefetch: int
) -> None:
    whole = loader(client, folder, prefetch=prefetch)
    with monkeypatch.context() as patched:
        interrupted(patched, Client, "create_task")
        with pytest.raises(KeyboardInterrupt):
            next(iter(whole))
    until(lambda: is_clean(client))
    assert sum(batch.rows for batch in whole) == sum(batch.rows for batch in loader(client, folder))


@pytest.mark.parametrize(("owner", "name"), [(Prefetch, "__init__"), (Prefetch, "start"), (Reading, "__init__")])
def test_ctrl_c_while_a_loop_begins_leaves_no_task_and_no_thread(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    whole = loader(client, folder, prefetch=2)
    with monkeypatch.context() as patched:
        interrupted(patched, owner, name)
        with pytest.raises(KeyboardInterrupt):
            next(iter(whole))
    until(lambda: is_clean(client))


def test_ctrl_c_while_a_loop_ends_leaves_no_task(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = loader(client, folder, prefetch=0)
    with monkeypatch.context() as patched:
        interrupted(patched, tidegate.Task, "delete", before=True)
        with pytest.raises(KeyboardInterrupt):
            list(whole)
    until(lambda: is_clean(client))


@pytest.mark.parametrize(
    "ask", [Loader.state_dict, lambda whole: whole.batch(0, 1), lambda whole: whole.check_state(STATE)]
)
@pytest.mark.parametrize(
    ("owner", "name", "before"),
    [(Client, "create_task", False), (SplitReaders, "close", True), (SplitReader, "_add_task", False)],
)
def test_ctrl_c_while_a_loader_is_asked_leaves_no_task(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, ask: Any, owner: type, name: str, *, before: bool
) -> None:
    samples, labels = (
        sub.read_named_table(*table) for table in (("samples", {"n": sub.i64}), ("labels", {"m": sub.i64}))
    )
    plan = samples.join(labels, sub.col("n") == sub.col("m")).to_plan()
    pq.write_table(pa.table({"m": range(60)}), folder.parent / "labels.parquet")
    whole = Loader(
        client, plan, {"samples": folder}, batch_size=16, tables={"labels": folder.parent / "labels.parquet"}
    )
    STATE.update(whole.state_dict())
    whole = Loader(
        client, plan, {"samples": folder}, batch_size=16, tables={"labels": folder.parent / "labels.parquet"}
    )
    with monkeypatch.context() as patched:
        interrupted(patched, owner, name, before=before)
        with pytest.raises(KeyboardInterrupt):
            ask(whole)
    gc.collect()
    until(lambda: is_clean(client))
    assert whole.state_dict() == STATE


STATE: dict[str, Any] = {}
"""The state of a loader that has begun no epoch."""


def test_an_error_of_work_without_interruption_is_that_of_the_work() -> None:
    def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        uninterrupted(work)


def test_a_signal_whose_handler_ends_the_program_leaves_the_time_for_the_work() -> None:
    worked = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        threading.Event().wait(0.05)  # the signal ends the wait of the main thread meanwhile
        worked.append(1)

    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
    try:
        with pytest.raises(SystemExit):
            uninterrupted(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert worked == [1]


def steps_interrupted(work: Callable[[], object]) -> Iterator[None]:
    """Do the work again and again, each time with Ctrl-C at a later one of the steps between which it can come."""
    for last in count():
        steps = iter(range(last))

        def step(_: FrameType, event: str, __: object, steps: Iterator[int] = steps) -> None:
            if event in ("call", "c_return") and next(steps, None) is None:
                sys.setprofile(None)
                raise KeyboardInterrupt

        try:
            sys.setprofile(step)
            work()
        except KeyboardInterrupt:
            sys.setprofile(None)
            yield
        else:
            sys.setprofile(None)
            return


@pytest.mark.parametrize("take", [lambda ahead: ahead.took(1, 1.0), Prefetch.next_run])
def test_ctrl_c_at_any_step_of_taking_a_batch_leaves_no_lock(take: Callable[[Prefetch], object]) -> None:
    aheads = [begun()]
    for _ in steps_interrupted(lambda: take(aheads[-1])):
        closing = threading.Thread(target=aheads[-1].close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()
        aheads.append(begun())


def begun() -> Prefetch:
    """Builds ahead, of which there are none."""
    ahead = Prefetch(iter(()), [SplitReader(no_task)], batches=1, size=1, expected=1)
    ahead.start()
    return ahead


def no_task() -> tidegate.Task:
    raise AssertionError("nothing is read")


def left(address: str, folder: Path) -> None:
    """A process that ends in the middle of a loop."""
    client = tidegate.connect(address)
    batches = iter(loader(client, folder, prefetch=0))
    next(batches)
    KEPT.append((client, batches))


KEPT: list[Any] = []
"""What lives until the process ends."""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_ends_deletes_its_tasks(client: Client, folder: Path, method: str) -> None:
    if client.address is None:
        pytest.skip("a service in this process serves no others")
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=left, args=(client.address, folder))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert client.tasks() == []
