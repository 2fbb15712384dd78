"""Windows are built ahead on several threads, within bounds. Their runs come in order, whatever their user does."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tidegate.task import Task
from tidegate.training.batch import Batch, Position
from tidegate.training.building.batch_layout import Layout
from tidegate.training.building.ready_runs import Ready, Run
from tidegate.training.building.window_prefetch import Builder, Prefetch, Runs
from tidegate.training.split_reader import SplitReader

from ...waiting import until

BATCHES, SIZE = 4, 100
ANY = 10**9
AFTER_THE_MAIN_THREAD = """
import threading, time, pyarrow as pa, substrait.dataframe as sub, tidegate
from tidegate.training import Loader

client = tidegate.local()
plan = sub.read_named_table("samples", {"n": sub.i64}).to_plan()
loader = Loader(client, plan, {"samples": pa.table({"n": [1, 2]})}, batch_size=2)

def train():
    threading.main_thread().join()
    time.sleep(0.5)  # Python ends its pools meanwhile
    print([batch["n"].tolist() for batch in loader])

threading.Thread(target=train).start()
"""


def no_task() -> Task:
    raise AssertionError("nothing is read")


def readers(count: int) -> Sequence[SplitReader]:
    return [SplitReader(no_task) for _ in range(count)]


def run_of(number: int) -> Iterator[Run]:
    ready = tuple(Ready((), Batch(number=number), Position()) for _ in range(BATCHES))
    yield Run(Layout(schema=pa.schema([]), forms=()), ready, SIZE, None)


class Windows:
    """Builds that can be held up, and that count themselves. `error` comes in place of the next one."""

    def __init__(self, count: int = 50, error: Exception | None = None, *, held: Sequence[int] = ()) -> None:
        self.begun: list[int] = []
        self.go_on = threading.Event()
        self._count, self._error, self._held = count, error, held

    def __iter__(self) -> Iterator[Window]:
        yield from (Window(self, number) for number in range(self._count))
        if self._error is not None:
            raise self._error

    def built(self, number: int) -> Runs:
        self.begun.append(number)
        if number in self._held:
            assert self.go_on.wait(30)
        return partial(run_of, number)


@dataclass
class Window:
    windows: Windows
    number: int

    def build(self, _: Builder) -> Runs:
        return self.windows.built(self.number)


def prefetch_of(windows: Any, threads: int, batches: int = ANY, size: int = ANY) -> Prefetch:
    prefetch = Prefetch(iter(windows), readers(threads), batches=batches, size=size, expected=BATCHES)
    prefetch.start()
    return prefetch


def quiet(windows: Windows, count: int) -> bool:
    """True once so many builds have begun, and no more begin."""
    until(lambda: len(windows.begun) == count)
    threading.Event().wait(0.05)
    return len(windows.begun) == count


def numbers(prefetch: Prefetch) -> list[int]:
    return [batch.number for run in iter(prefetch.next_run, None) for batch, _ in run if batch is not None]


def test_a_batch_is_gone_once_its_user_drops_it() -> None:
    [run] = run_of(0)
    batches = iter(run)
    batch, _ = next(batches)
    still_there = weakref.ref(batch)
    del batch
    assert still_there() is None


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("batches", "size", "ahead"), [(1, ANY, 1), (BATCHES + 1, ANY, 2), (ANY, 1, 1), (ANY, 2 * SIZE + 1, 3)]
)
def test_no_more_is_built_ahead_than_the_bounds_and_one_window(
    threads: int, batches: int, size: int, ahead: int
) -> None:
    windows = Windows()
    prefetch = prefetch_of(windows, threads, batches, size)
    assert quiet(windows, ahead)
    assert prefetch.next_run() is not None
    prefetch.took(BATCHES, SIZE)
    assert quiet(windows, ahead + 1)
    prefetch.close()
    prefetch.join()


@pytest.mark.parametrize(("batches", "begun"), [(1, 1), (BATCHES, 1), (BATCHES + 1, 2), (3 * BATCHES, 3), (ANY, 4)])
def test_what_is_being_built_counts_as_what_is_expected_of_it(batches: int, begun: int) -> None:
    windows = Windows(held=range(50))
    prefetch = prefetch_of(windows, 4, batches)
    assert quiet(windows, begun)
    prefetch.close()
    windows.go_on.set()
    prefetch.join()


def test_ends_of_epochs_alone_are_bounded_too() -> None:
    class Empty(Windows):
        def built(self, number: int) -> Runs:
            self.begun.append(number)
            return lambda: iter([Run(Layout(schema=pa.schema([]), forms=()), (), 0, Position(number + 1))])

    windows = Empty()
    prefetch = prefetch_of(windows, 2, BATCHES)
    assert quiet(windows, BATCHES)
    prefetch.close()
    prefetch.join()


def test_runs_come_in_the_order_of_their_windows_and_then_the_end() -> None:
    windows = Windows(7, held=[0, 4])
    prefetch = prefetch_of(windows, 3)
    until(lambda: len(windows.begun) > 4)  # others are built while the first one is held up
    windows.go_on.set()
    assert numbers(prefetch) == [number for number in range(7) for _ in range(BATCHES)]
    assert prefetch.next_run() is None


def test_windows_are_built_side_by_side() -> None:
    both = threading.Barrier(2)

    class Waiting(Windows):
        def built(self, number: int) -> Runs:
            both.wait(30)
            return super().built(number)

    assert len(numbers(prefetch_of(Waiting(6), 2))) == 6 * BATCHES


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_after_the_runs_before_it(threads: int) -> None:
    prefetch = prefetch_of(Windows(2, ValueError("broken")), threads)
    for _ in range(2):
        assert prefetch.next_run() is not None
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            prefetch.next_run()
    prefetch.join()


def test_of_two_windows_that_fail_the_first_one_is_told() -> None:
    class Failing(Windows):
        def built(self, number: int) -> Runs:
            super().built(number)
            raise ValueError(f"window {number} is broken")

    windows = Failing(held=[0])
    prefetch = prefetch_of(windows, 2)
    until(lambda: len(windows.begun) == 2)
    windows.go_on.set()
    with pytest.raises(ValueError, match="window 0 is broken"):
        prefetch.next_run()
    prefetch.join()


def test_an_error_of_making_runs_comes_in_its_place() -> None:
    class Odd(Windows):
        def built(self, number: int) -> Runs:
            def failing() -> Iterator[Run]:
                yield from run_of(number)
                raise ValueError("no run")

            return failing if number == 1 else super().built(number)

    prefetch = prefetch_of(Odd(5), 2)
    for _ in range(2):
        assert prefetch.next_run() is not None
    with pytest.raises(ValueError, match="no run"):
        prefetch.next_run()
    prefetch.join()


def test_threads_that_wait_for_their_user_end_when_they_are_closed() -> None:
    windows = Windows()
    prefetch = prefetch_of(windows, 3, 1, 1)
    assert quiet(windows, 1)
    prefetch.close()
    prefetch.join()
    assert windows.begun == [0]


def test_a_user_who_waits_learns_of_the_end_when_it_is_closed() -> None:
    windows = Windows(held=[0])
    prefetch = prefetch_of(windows, 1)
    until(lambda: windows.begun)
    prefetch.close()
    windows.go_on.set()
    prefetch.join()
    assert numbers(prefetch) == []


def test_a_thread_that_joins_the_threads_does_not_wait_for_those_that_wait_for_it() -> None:
    """Python may collect a loader, which closes it, on a thread of the loader itself."""
    joined: list[int] = []

    class Joining(Windows):
        def built(self, number: int) -> Runs:
            super().built(number)
            return partial(self.joining, number)

        def joining(self, number: int) -> Iterator[Run]:
            until(lambda: len(self.begun) == 2)  # the other thread cannot make its runs before this one
            prefetch.close()
            prefetch.join()
            joined.append(number)
            yield from run_of(number)

    prefetch = Prefetch(iter(Joining()), readers(2), batches=ANY, size=ANY, expected=BATCHES)
    prefetch.start()
    until(lambda: joined == [0])
    prefetch.join()


def test_a_loop_goes_on_after_the_main_thread_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_THE_MAIN_THREAD], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[1, 2]]", done.stderr
