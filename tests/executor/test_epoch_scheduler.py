"""Runs advanced by whoever there is: on demand, and ahead as long as exchanges have room."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tidegate.executor.exchange.epoch_scheduler import Driver, EpochScheduler
from tidegate.executor.exchange.exchange import Exchange, Slice
from tidegate.executor.exchange.routing import Broadcast
from tidegate.executor.runtime.scheduler import Scheduler, Slot
from tidegate.proto.errors import ExecutionError

from .exchanging import SECONDS, OneExchange, block

PLENTY = 1 << 40


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    with closing(Scheduler(3)) as running:
        yield running


class Counting:
    """A run of `blocks` blocks that notes its steps and whether it was closed."""

    def __init__(self, exchange: Exchange, blocks: int, *, gate: threading.Event | None = None) -> None:
        self.stepped = 0
        self.closed = False
        self.interrupted = 0
        self._gate = gate
        self.run = Driver(
            self._steps(exchange, blocks), inlets=(), outlets=[(exchange, 0)], above=(), interrupt=self._interrupt
        )

    def _interrupt(self) -> None:
        self.interrupted += 1
        if self._gate is not None:
            self._gate.set()

    def _steps(self, exchange: Exchange, blocks: int) -> Iterator[None]:
        try:
            for number in range(blocks):
                self.stepped += 1
                if self._gate is not None:
                    assert self._gate.wait(SECONDS)
                with suppress(ExecutionError):  # cancelled
                    exchange.push(0, block(number))
                yield
            exchange.end(0)
        finally:
            self.closed = True


def exchange_of(folder: Path, scheduler: EpochScheduler, memory_limit: int = PLENTY) -> Exchange:
    one = OneExchange(folder, Broadcast(1), producers=1, memory_limit=memory_limit, on_change=scheduler.offer)
    return one.exchange


def keys(exchange: Exchange, scheduler: EpochScheduler, run: Driver) -> list[int]:
    stream = exchange.stream(0, scheduler.lender([run], [run]))
    return [key for rows in stream for key in rows.column(0).to_pylist()]


def test_who_waits_advances_what_is_waited_for(tmp_path: Path, scheduler: Scheduler) -> None:
    scheduler = EpochScheduler(scheduler)
    exchange = exchange_of(tmp_path, scheduler)
    counting = Counting(exchange, 5)
    scheduler.add(counting.run)
    assert keys(exchange, scheduler, counting.run) == list(range(5))
    scheduler.close()
    assert counting.closed


@pytest.mark.parametrize(
    ("threads", "of_a_task", "asked"),
    [
        (1, None, 1),
        (2, None, 1),
        (3, None, 1),
        (4, None, 2),
        (8, None, 6),
        (20, None, 9),
        (4, 1, 1),
        (4, 2, 1),
        (4, 3, 2),
        (8, 8, 6),
    ],
)
def test_an_epoch_asks_for_no_more_helpers_than_leave_a_thread_to_other_tasks(
    threads: int, of_a_task: int | None, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more thread is its own, and no helper is without a run."""
    helpers: list[Slot] = []
    with closing(Scheduler(threads, of_a_task)) as running:
        monkeypatch.setattr(running, "submit", helpers.append)
        epoch = EpochScheduler(running)
        exchange = exchange_of(tmp_path, epoch)
        for _ in range(10):
            epoch.add(Counting(exchange, 1).run)
        epoch.start()
        epoch.close()
    assert len(helpers) == asked


def test_helpers_rest_where_an_exchange_is_crowded_and_go_on_once_it_is_not(
    tmp_path: Path, scheduler: Scheduler
) -> None:
    scheduler = EpochScheduler(scheduler)
    exchange, other = exchange_of(tmp_path / "a", scheduler, memory_limit=700), exchange_of(tmp_path / "b", scheduler)
    counting, idle = Counting(exchange, 1_000), Counting(other, 0)
    scheduler.add(counting.run)
    scheduler.add(idle.run)
    scheduler.start()
    read = 0
    while read < 900:
        slice_ = exchange.pull(0)
        assert counting.stepped <= read + 10
        read += isinstance(slice_, Slice)
    scheduler.close()


def test_a_run_that_nobody_reads_any_more_is_closed(tmp_path: Path, scheduler: Scheduler) -> None:
    scheduler = EpochScheduler(scheduler)
    exchange = exchange_of(tmp_path, scheduler)
    counting = Counting(exchange, 5)
    scheduler.add(counting.run)
    assert exchange.take(0, None, scheduler.lender([counting.run], [counting.run])) is not None
    exchange.close(0)
    taken = scheduler.take(object())  # type: ignore[arg-type]
    assert taken is counting.run
    scheduler.advance(counting.run)
    assert (counting.stepped, counting.closed, counting.run.done) == (1, True, True)


def test_closing_interrupts_what_another_thread_has_in_hand_and_waits_for_it(
    tmp_path: Path, scheduler: Scheduler
) -> None:
    scheduler = EpochScheduler(scheduler)
    exchange = exchange_of(tmp_path, scheduler)
    counting = Counting(exchange, 5, gate=threading.Event())
    scheduler.add(counting.run)
    thread = threading.Thread(target=lambda: scheduler.lender([counting.run], [])(0), daemon=True)
    thread.start()
    while not counting.stepped:
        thread.join(0.001)
    scheduler.close()
    thread.join(SECONDS)
    assert counting.interrupted >= 1
    assert counting.closed
    assert not counting.run.busy
