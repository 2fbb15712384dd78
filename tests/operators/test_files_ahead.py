"""Files that are read ahead: the same rows in the same order, within bounds, and nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.runtime.side_threads import SideThreads
from tidegate.operators.core.sizes import batch_bytes
from tidegate.operators.sources.files_ahead import FilesAhead, FreedAhead

ROOM = 1 << 12
MEMORY = 1 << 28
BATCH = 1 << 10


class File:
    """A file of so many batches, which counts what was decoded of it and whether it was closed."""

    def __init__(self, number: int, batches: int, fails_at: int | None = None) -> None:
        self.number = number
        self.count = batches
        self.decoded = 0
        self.closed = False
        self._fails_at = fails_at
        self._busy = threading.Lock()

    def batches(self) -> Generator[pa.RecordBatch]:
        try:
            for at in range(self.count):
                assert self._busy.acquire(blocking=False), "two threads decode one file"
                if at == self._fails_at:
                    self._busy.release()
                    raise ValueError(f"file {self.number} is damaged")
                self.decoded += 1
                batch = pa.record_batch({"file": [self.number], "at": [at], "data": ["x" * BATCH]})
                self._busy.release()
                yield batch
        finally:
            self.closed = True


def rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [(row["file"], row["at"]) for batch in batches for row in batch.select(["file", "at"]).to_pylist()]


@pytest.fixture
def threads() -> Iterator[SideThreads]:
    side_threads = SideThreads(4, "reader")
    yield side_threads
    side_threads.close()


@pytest.fixture
def ahead(threads: SideThreads) -> FilesAhead:
    return FilesAhead(threads.queue(2).submit, ROOM, FreedAhead(MEMORY))


class Never:
    """Threads that are all busy: no call ever begins."""

    def __call__(self, call: Callable[[], Any], /) -> Future[Any]:
        return Future()


class Cancelled:
    """Threads that have ended."""

    def __call__(self, call: Callable[[], Any], /) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        return future


@given(counts=st.lists(st.integers(0, 12), max_size=6))
def test_rows_come_in_the_order_of_the_files(counts: list[int]) -> None:
    files = [File(number, count) for number, count in enumerate(counts)]
    threads = SideThreads(4, "reader")
    try:
        read = rows(
            FilesAhead(threads.queue(2).submit, ROOM, FreedAhead(MEMORY)).read(
                (file.batches() for file in files), batch_bytes
            )
        )
    finally:
        threads.close()
    assert read == [(number, at) for number, count in enumerate(counts) for at in range(count)]
    assert all(file.closed for file in files)


@pytest.mark.parametrize("submit", [Never(), Cancelled()], ids=["busy", "ended"])
def test_the_caller_decodes_where_no_thread_does(submit: Never | Cancelled) -> None:
    files = [File(number, 5) for number in range(3)]
    read = rows(FilesAhead(submit, ROOM, FreedAhead(MEMORY)).read((file.batches() for file in files), batch_bytes))
    assert read == [(number, at) for number in range(3) for at in range(5)]


def test_behind_a_files_last_batch_no_thread_begins_with_the_next_file() -> None:
    begun: list[Callable[[], Any]] = []

    def submit(call: Callable[[], Any], /) -> Future[Any]:
        begun.append(call)
        return Future()

    files = [File(0, 1), File(1, 1)]
    ahead = FilesAhead(submit, ROOM, FreedAhead(MEMORY))
    assert rows(ahead.read((file.batches() for file in files), batch_bytes, lambda _: True)) == [(0, 0), (1, 0)]
    assert begun == []


def test_the_next_batches_are_decoded_while_the_caller_works(ahead: FilesAhead) -> None:
    files = [File(0, 100), File(1, 100)]
    batches = ahead.read((file.batches() for file in files), batch_bytes)
    begin(batches)
    wait_until(lambda: files[0].decoded > 2 and files[1].decoded > 2)
    batches.close()


def test_no_more_is_decoded_than_there_is_room_for(ahead: FilesAhead) -> None:
    files = [File(number, 100) for number in range(3)]
    batches = ahead.read((file.batches() for file in files), batch_bytes)
    begin(batches)
    wait_until(lambda: files[1].decoded >= ROOM // (BATCH + 512))
    batches.close()
    most = 3 + ROOM // BATCH  # the batches in hand, and the one that passes the bound
    assert files[0].decoded <= most
    assert files[1].decoded <= most
    assert files[2].decoded == 0


def test_an_error_comes_behind_the_rows_before_it(ahead: FilesAhead) -> None:
    files = [File(0, 3), File(1, 5, fails_at=2), File(2, 3)]
    batches = ahead.read((file.batches() for file in files), batch_bytes)
    read = [rows(iter([next(batches)])) for _ in range(5)]
    with pytest.raises(ValueError, match="file 1 is damaged"):
        next(batches)
    assert read == [[(0, 0)], [(0, 1)], [(0, 2)], [(1, 0)], [(1, 1)]]
    assert files[0].closed
    assert files[1].closed
    assert files[2].decoded <= ROOM // BATCH + 1


def test_closing_early_closes_every_file_that_was_begun(ahead: FilesAhead) -> None:
    files = [File(number, 1_000) for number in range(3)]
    batches = ahead.read((file.batches() for file in files), batch_bytes)
    begin(batches)
    wait_until(lambda: files[1].decoded > 0)
    batches.close()
    decoded = [file.decoded for file in files]
    assert [file.closed for file in files] == [True, True, False]
    assert decoded[2] == 0


def begin(batches: Iterator[pa.RecordBatch]) -> None:
    """Take the first batch, behind which nothing is read ahead yet, and the second one."""
    next(batches)
    next(batches)


def test_nothing_is_read_ahead_before_a_second_batch_is_wanted(ahead: FilesAhead) -> None:
    files = [File(0, 100), File(1, 100)]
    batches = ahead.read((file.batches() for file in files), batch_bytes)
    next(batches)
    batches.close()
    assert [file.decoded for file in files] == [1, 0]


class Noting:
    """Threads that are all busy, and that note how many batches of a file were decoded at each call."""

    def __init__(self, file: File) -> None:
        self.decoded: list[int] = []
        self._file = file

    def __call__(self, call: Callable[[], Any], /) -> Future[Any]:
        self.decoded.append(self._file.decoded)
        return Future()


def test_the_second_file_is_begun_before_the_caller_decodes_a_second_batch() -> None:
    files = [File(0, 5), File(1, 5)]
    submit = Noting(files[0])
    batches = FilesAhead(submit, ROOM, FreedAhead(MEMORY)).read((file.batches() for file in files), batch_bytes)
    next(batches)
    assert submit.decoded == []
    next(batches)
    assert submit.decoded[0] == 1


def wait_until(is_so: Callable[[], bool]) -> None:
    waits = threading.Event()
    for _ in range(1_000):
        if is_so():
            return
        waits.wait(0.01)
    raise AssertionError("it did not come to that within 10 s")
