"""Runs are built ahead within bounds, whatever their user does."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidegate.training.batch import Batch, Position
from tidegate.training.batch_runs import Layout, Ready, Run
from tidegate.training.window_prefetch import Prefetch

from ...waiting import until

BATCHES, SIZE = 4, 100


def run_of(number: int) -> Run:
    ready = tuple(Ready((), Batch(number=number), Position()) for _ in range(BATCHES))
    return Run(Layout(schema=pa.schema([]), forms=()), ready, SIZE, None)


class Builder:
    """Counts the runs that were built."""

    def __init__(self, count: int = 50, error: Exception | None = None) -> None:
        self.built = 0
        self._count, self._error = count, error

    def __iter__(self) -> Iterator[Run]:
        for number in range(self._count):
            self.built += 1
            yield run_of(number)
        if self._error is not None:
            raise self._error


def test_a_batch_is_gone_once_its_user_drops_it() -> None:
    batches = iter(run_of(0))
    batch, _ = next(batches)
    still_there = weakref.ref(batch)
    del batch
    assert still_there() is None


def quiet(prefetch: Prefetch, builder: Builder, count: int) -> bool:
    """True once the thread has built so many runs, and waits."""
    until(lambda: builder.built == count)
    threading.Event().wait(0.05)
    return builder.built == count


@pytest.mark.parametrize(
    ("batches", "size", "ahead"), [(1, 10**9, 1), (BATCHES + 1, 10**9, 2), (10**9, 1, 1), (10**9, 2 * SIZE + 1, 3)]
)
def test_no_more_is_built_ahead_than_the_bounds_and_one_run(batches: int, size: int, ahead: int) -> None:
    builder = Builder()
    prefetch = Prefetch(iter(builder), batches, size)
    prefetch.start()
    assert quiet(prefetch, builder, ahead)
    assert prefetch.next_run() is not None
    prefetch.took(BATCHES, SIZE)
    assert quiet(prefetch, builder, ahead + 1)
    prefetch.close()
    prefetch.join()


def test_runs_come_in_order_and_then_the_end() -> None:
    prefetch = Prefetch(iter(Builder(3)), 10**9, 10**9)
    prefetch.start()
    numbers = [batch.number for run in iter(prefetch.next_run, None) for batch, _ in run if batch is not None]
    assert numbers == [number for number in range(3) for _ in range(BATCHES)]
    assert prefetch.next_run() is None


def test_an_error_comes_after_the_runs_before_it() -> None:
    prefetch = Prefetch(iter(Builder(1, ValueError("broken"))), 10**9, 10**9)
    prefetch.start()
    assert prefetch.next_run() is not None
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            prefetch.next_run()


def test_a_thread_that_waits_for_its_user_ends_when_it_is_closed() -> None:
    builder: Any = Builder()
    prefetch = Prefetch(iter(builder), 1, 1)
    prefetch.start()
    assert quiet(prefetch, builder, 1)
    prefetch.close()
    prefetch.join()
    assert builder.built == 1
