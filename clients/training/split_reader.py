"""Reads splits, some of them as an epoch of a task. Several readers work side by side, each with a task of its own."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import Final, TypeVar

import pyarrow as pa

from ..closing import Closing
from ..proto.errors import TidegateError
from ..task import Task
from .sources.training_splits import TrainingSplit
from .sources.uninterrupted import uninterrupted

T = TypeVar("T")

EPOCH_BYTES: Final = 24 << 20
"""Splits of up to so many bytes are read as one epoch: an epoch costs as much as reading a small split."""
ROW_BYTES: Final = 192
"""The bytes of a row of the result, before any is read."""


class SplitReader:
    """Reads splits with a task, which is made when it is needed. `close` deletes it, also one that is being made. So
    does Python when it collects the reader.
    """

    def __init__(self, create_task: Callable[[], Task]) -> None:
        self._create_task = create_task
        self._closed = False
        self._row_bytes: float = ROW_BYTES  # of the last result
        self._made: list[Task] = []
        self._uncollected = weakref.finalize(self, _delete, self._made)  # Ctrl-C may come in place of `close`

    @property
    def task(self) -> Task:
        """The reader's task."""
        if not self._made:
            uninterrupted(self._add_task)
        return self._made[0]

    def worth_an_epoch(self, splits: Sequence[TrainingSplit]) -> int:
        """The number of the first of these splits that are best read as one epoch."""
        count, size = 1, self._bytes(splits[0])
        for split in splits[1:]:
            size += self._bytes(split)
            if split.rows is None or size > EPOCH_BYTES:
                break
            count += 1
        return count

    def read(self, source: str, splits: Sequence[TrainingSplit]) -> Iterator[pa.RecordBatch]:
        """The result's rows for these splits, which are an epoch. They come as they are made: take all of them before
        you read other splits.
        """
        size = 0
        for batch in self.task.start_epoch({source: [split.data for split in splits]}):
            size += batch.nbytes
            yield batch
        rows = sum(split.rows or 0 for split in splits)
        if rows and size:
            self._row_bytes = size / rows

    def _bytes(self, split: TrainingSplit) -> float:
        """About the bytes of the result's rows of a split, or of the rows that are sent for it, if they are more."""
        sent = split.data.nbytes if isinstance(split.data, pa.Table) else 0
        return max((split.rows or 0) * self._row_bytes, sent)

    def _add_task(self) -> None:
        task = self._create_task()
        self._made.append(task)
        if self._closed:  # by another thread, which has not seen this task
            task.delete()

    def close(self) -> None:
        """Delete the task. A signal may cut this off."""
        self._closed = True
        _delete(self._made)
        self._uncollected.detach()


class SplitReaders(Closing):
    """Some readers of one plan, for as many threads."""

    def __init__(self, create_task: Callable[[], Task], count: int) -> None:
        self.all: Final = tuple(SplitReader(create_task) for _ in range(count))

    @property
    def first(self) -> SplitReader:
        return self.all[0]

    def share(self, items: Sequence[T], work: Callable[[SplitReader, T], None]) -> None:
        """Do the work for all items. Each reader takes the next one that is left. Of several errors, that of the first
        item is raised.
        """
        left = iter(enumerate(items))  # gives each item to one thread alone
        errors: dict[int, BaseException] = {}

        def take(reader: SplitReader) -> None:
            for number, item in left:
                try:
                    work(reader, item)
                except BaseException as error:  # noqa: BLE001  # raised below
                    errors[number] = error
                    deque(left, maxlen=0)  # nobody wants the other items any more

        others = self.all[1 : len(items)]
        threads = [Thread(target=take, args=(one,), name="tidegate-training", daemon=True) for one in others]
        try:
            for thread in threads:
                thread.start()
            take(self.first)
        finally:
            deque(left, maxlen=0)  # Ctrl-C may have come between two items
            for thread in filter(Thread.is_alive, threads):
                thread.join()
        if errors:
            raise errors[min(errors)]

    def close(self) -> None:
        uninterrupted(self._close)

    def _close(self) -> None:
        for reader in self.all:
            reader.close()


def _delete(tasks: Sequence[Task]) -> None:
    for task in tuple(tasks):
        with contextlib.suppress(TidegateError):  # the server is gone, and the task with it
            task.delete()
