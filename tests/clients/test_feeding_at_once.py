"""Threads that feed one task: a source whose folder is long to list holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from tidegate.client import Client
from tidegate.proto.values import FileSplit
from tidegate.task import Task

from ..executor.fakes import SCHEMA, FakeEngine


def numbers(*values: int) -> pa.Table:
    return pa.table([values], schema=SCHEMA)


FEED: dict[str, Callable[[Task, FileSplit], object]] = {
    "split": lambda task, split: task.add_split("a", split),
    "transaction": lambda task, split: task.transact("app", 1, {"a": split}, seal=False),
}


@pytest.mark.parametrize("feed", FEED.values(), ids=FEED)
def test_other_sources_are_fed_and_sealed_while_a_folder_is_listed(
    open_client: Callable[..., Client], feed: Callable[[Task, FileSplit], object]
) -> None:
    engine = FakeEngine(sources=("a", "b"))
    with open_client(engine).create_task(b"plan") as task:
        [computation] = engine.computations
        accept, begun, let = computation.accept_file, threading.Event(), threading.Event()

        def listing(source: str, split: FileSplit, origin: str) -> object:
            begun.set()
            assert let.wait(60)
            return accept(source, split, origin)

        computation.accept_file = listing  # type: ignore[assignment, method-assign]
        with ThreadPoolExecutor(1) as thread:
            slow = thread.submit(feed, task, FileSplit(path="1"))
            try:
                assert begun.wait(60)
                assert task.add_split("b", numbers(2)).sequence == 1
                assert task.transact("other", 1, {"b": numbers(3)}, seal=False).added[0].sequence == 2
                assert task.request_barrier() == 1
                assert not slow.done()
            finally:
                let.set()
            slow.result(60)
        assert task.read_epoch()["x"].to_pylist() == [2, 3]
        task.request_barrier()
        assert task.read_epoch()["x"].to_pylist() == [1]
