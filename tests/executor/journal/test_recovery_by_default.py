"""The default options of checkpoints bound what a restart computes again, beside epochs that are not acknowledged."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.executor.checkpoints.regular_checkpoints import RegularCheckpoints
from tidegate.proto.values import Cursor, Mode

from ...searching import tries
from ..fakes import Client, CountingEngine, FakeComputation, counting
from .restarts import Restarts

MOST_EPOCHS: Final = 1_000
MOST_SECONDS: Final = 60


class WorkingEngine(CountingEngine):
    """An engine that takes as many seconds for a row as its value says, by a clock that this work alone moves on."""

    clock = 0

    def prepare(self, *how: object) -> FakeComputation:
        engine = super().prepare(*how).engine
        number = engine.function

        def work(batch: pa.RecordBatch) -> pa.RecordBatch:
            self.clock += sum(batch.column(0).to_pylist())
            return number(batch)

        engine.function = work
        return self.computations[-1]


@contextmanager
def service() -> Iterator[Restarts]:
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="tidegate-test-", dir=memory if memory.is_dir() else None)
    engine, due = WorkingEngine(), RegularCheckpoints.due
    looked = [0]

    def due_by_clock(regular: RegularCheckpoints, _: float, acknowledged: Cursor, *, presses: bool) -> bool:
        seconds, looked[0] = engine.clock - looked[0], engine.clock
        return due(regular, seconds, acknowledged, presses=presses)

    with pytest.MonkeyPatch.context() as patched, Restarts(Path(folder), engine) as restarts:
        patched.setattr(RegularCheckpoints, "due", due_by_clock)
        yield restarts


def run(service: Restarts, task: Client, epoch: int, seconds: int = 0) -> None:
    task.add(seconds, sequence=epoch)
    task.seal(epoch)
    assert task.epoch(epoch) == [counting(seconds, epoch - 1)]
    service.manager.acknowledge(task.id, Cursor(epoch + 1))


@settings(max_examples=tries(4))
@given(lives=st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=12), min_size=1, max_size=4))
def test_a_restart_computes_at_most_a_minute_of_work_again(lives: list[list[int]]) -> None:
    """Each life of the service runs epochs that take so long, all of which are acknowledged."""
    with service() as restarts:
        task, epoch = restarts.create(mode=Mode.CONTINUOUS), 0
        for life in lives:
            for seconds in life:
                epoch += 1
                run(restarts, task, epoch, seconds)
                restarts.settle()
            before = restarts.engine.clock
            task = restarts.restart(task)
            epoch += 1
            run(restarts, task, epoch)
            assert restarts.engine.clock - before <= MOST_SECONDS


def test_a_restart_computes_at_most_a_thousand_epochs_again() -> None:
    with service() as restarts:
        task = restarts.create(mode=Mode.CONTINUOUS)
        for epoch in range(1, MOST_EPOCHS + 11):
            run(restarts, task, epoch)
        restarts.settle()
        task = restarts.restart(task)
        run(restarts, task, MOST_EPOCHS + 11)
        assert len(restarts.engine.computations[-1].clocks) == 11
