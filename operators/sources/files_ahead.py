"""Reads files ahead: threads decode the next batches of a file, and the first ones of the file behind it, while the
caller works on the batches before.

Rows keep the order of the files. What is read ahead is bounded in bytes, for each of the two files. Where no thread is
free the caller decodes its next batch itself, so no file ever waits for a thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import pyarrow as pa

from ..core.submit import Submit

T = TypeVar("T")

_LITTLE_MEMORY: Final = 1 << 30
_FREED_BYTES: Final = 32 << 20
_MOST_FREED: Final = 1 << 30


class FreedAhead:
    """The memory that callers have freed, and that only the threads that decode can release. They do so after 32 MiB,
    and at a file's end. Where the task has much memory they wait for a GiB: fresh memory for the next batches costs as
    much as decoding them.
    """

    def __init__(self, memory: int) -> None:
        self._is_little = memory < _LITTLE_MEMORY
        self._every = _FREED_BYTES if self._is_little else _MOST_FREED
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, size: int, *, ends: bool) -> None:
        """Count the bytes that the calling thread has decoded. It may be at its file's end."""
        with self._lock:
            self._bytes += size
            is_due = self._bytes >= self._every or (ends and self._is_little)
            if is_due:
                self._bytes = 0
        if is_due:
            pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True)
class FilesAhead:
    """Room to read ahead: about `most` bytes of each of two files, on threads of `submit`."""

    submit: Submit
    most: int
    freed: FreedAhead

    def read(
        self, files: Iterable[Generator[T]], size: Callable[[T], int], is_last: Callable[[T], bool] = lambda _: False
    ) -> Generator[T]:
        """The batches of all files, in order, of so many bytes each. Closes each file at its end, and all that are open
        when it is closed. If a batch `is_last`, its file has no other: then there is nothing to wait for, and no thread
        begins with the next file before the caller does.
        """
        remaining = iter(files)
        files_ahead: deque[_FileAhead[T]] = deque()
        goes_on = has_ended = False  # a caller may want no more than a first batch
        try:
            while True:
                while len(files_ahead) < 2 and (file := next(remaining, None)) is not None:
                    files_ahead.append(_FileAhead(file, size, self))
                if not files_ahead:
                    return
                if goes_on and len(files_ahead) > 1 and not has_ended:  # before the caller decodes a batch itself
                    files_ahead[1].fill()
                batch = files_ahead[0].next()
                has_ended = batch is not None and is_last(batch)
                if batch is None:
                    files_ahead.popleft().close()
                    continue
                if goes_on and not has_ended:
                    files_ahead[0].fill()
                yield batch
                goes_on = True
        finally:
            for file_ahead in files_ahead:
                file_ahead.close()


class _FileAhead(Generic[T]):
    """One file's batches. A thread fills it while its caller takes from it; never do both decode at a time."""

    def __init__(self, batches: Generator[T], size: Callable[[T], int], room: FilesAhead) -> None:
        self._batches = batches
        self._size = size
        self._room = room
        self._changed = threading.Condition()
        self._read: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._filling: Future[None] | None = None
        self._ended = False
        self._error: BaseException | None = None

    def next(self) -> T | None:
        """The next batch, decoded by the caller if no thread has begun to; None at the end of the file."""
        with self._changed:
            while not self._read and self._is_filling():
                self._changed.wait()
            if self._read:
                batch, size = self._read.popleft()
                self._bytes -= size
                return batch
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
        decoded = next(self._batches, None)
        self._ended = decoded is None
        return decoded

    def fill(self) -> None:
        """Have a thread decode batches, if there is room for many bytes."""
        with self._changed:
            if self._filling is None and not self._ended and 2 * self._bytes <= self._room.most:
                self._filling = self._room.submit(self._fill)

    def _is_filling(self) -> bool:
        """True while a thread decodes. A call that no thread has begun is taken back."""
        if self._filling is not None and self._filling.cancel():
            self._filling = None
        return self._filling is not None

    def _fill(self) -> None:
        goes_on = True
        while goes_on:
            size, goes_on = self._decode_one()
            self._room.freed.add(size, ends=self._ended)

    def _decode_one(self) -> tuple[int, bool]:
        """Decode a batch; its bytes, and False once there is nothing more to do for this thread."""
        batch: T | None = None
        error: BaseException | None = None
        size = 0
        try:
            batch = next(self._batches, None)
            size = 0 if batch is None else self._size(batch)
        except BaseException as raised:  # noqa: BLE001  # it is raised where the caller takes the batch
            error = raised
        with self._changed:
            if batch is not None:
                self._read.append((batch, size))
                self._bytes += size
            self._error = error
            self._ended = self._ended or batch is None
            goes_on = not self._ended and self._bytes < self._room.most
            if not goes_on:
                self._filling = None
            self._changed.notify_all()
            return size, goes_on

    def close(self) -> None:
        """Close the file, once the thread that decodes is at the end of its batch."""
        with self._changed:
            self._ended = True
            while self._is_filling():
                self._changed.wait()
            self._read.clear()
        self._batches.close()
