"""Windows that are permuted and gathered on two threads have the rows that one thread gives them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.training import Loader, Shuffle
from tidegate.training.order.second_thread import SecondThread

ROWS = 150_000
AFTER_THE_MAIN_THREAD = """
import threading, time
from tidegate.training.order.second_thread import SecondThread

def train():
    threading.main_thread().join()
    time.sleep(0.5)  # Python ends its pools meanwhile
    print(SecondThread().submit(sum, (1, 2)).result(30))

threading.Thread(target=train).start()
"""


def batches(client: tidegate.Client, prefetch: int) -> list[dict[str, list[int]]]:
    names = [f"c{number}" for number in range(4)]
    table = pa.table({name: np.arange(ROWS) * (at + 1) for at, name in enumerate(names)})
    plan = sub.read_named_table("samples", dict.fromkeys(names, sub.i64)).to_plan()
    loader = Loader(
        client, plan, {"samples": table}, batch_size=7_000, shuffle=Shuffle(3, rows=70_000), prefetch=prefetch
    )
    return [{name: batch[name].tolist() for name in names} for batch in loader]


def test_the_order_and_the_rows_are_those_of_one_thread(local_client: tidegate.Client) -> None:
    on_two_threads = batches(local_client, prefetch=4)
    assert on_two_threads == batches(local_client, prefetch=0)
    assert sorted(row for batch in on_two_threads for row in batch["c0"]) == list(range(ROWS))


def test_the_thread_ends_with_the_loader(local_client: tidegate.Client) -> None:
    batches(local_client, prefetch=4)
    end = time.monotonic() + 30
    while any("second" in thread.name for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any("second" in thread.name for thread in threading.enumerate())


def test_tasks_are_shared_and_their_results_stay_in_order() -> None:
    """The first two tasks wait for each other."""
    both = threading.Barrier(2)

    def task(number: int) -> Callable[[bool], tuple[int, bool]]:
        def run(is_second: bool) -> tuple[int, bool]:
            if number < 2:
                both.wait(30)
            return number, is_second

        return run

    thread = SecondThread()
    results = thread.share([task(number) for number in range(6)])
    thread.close()
    assert [number for number, _ in results] == list(range(6))
    assert {is_second for _, is_second in results} == {True, False}


def test_an_error_of_either_thread_is_raised() -> None:
    def fails(_: bool) -> None:
        raise ValueError("a bad column")

    thread = SecondThread()
    with pytest.raises(ValueError, match="a bad column"):
        thread.share([fails] * 4)
    thread.close()


def test_work_goes_on_after_the_main_thread_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", AFTER_THE_MAIN_THREAD], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3", done.stderr
