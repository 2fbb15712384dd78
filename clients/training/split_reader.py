"""Reads splits in order, some of them as an epoch of a task. Several tasks take epochs in turns, at the same time."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa

from ..closing import Closing
from ..epoch import Epoch
from ..proto.errors import EpochError, NotFound, TidegateError
from ..task import Task
from .sources.training_splits import TrainingSplit
from .sources.uninterrupted import uninterrupted

AHEAD_EPOCHS: Final = 4
AHEAD_ROWS: Final = 262_144
AHEAD_BYTES: Final = 48 << 20
"""Splits are fed ahead until their results have about so many bytes, by those before; an epoch for each task at least.
A task holds 64 MiB of results in memory, and more of them on disk.
"""
EPOCH_BYTES: Final = AHEAD_BYTES // 2
"""Splits of up to so many bytes are read as one epoch: an epoch costs as much as reading a small split."""

Skipped = Callable[[TrainingSplit, TidegateError], None]

FILE_NOT_FOUND: Final = "FILE_NOT_FOUND"


class _Fed(NamedTuple):
    """Splits that a task reads as an epoch, or the error that says that a file, or the task, is gone."""

    number: int
    splits: Sequence[TrainingSplit]
    missing: NotFound | None

    @property
    def rows(self) -> int:
        """The rows of the splits, as far as they are known."""
        return sum(split.rows or 0 for split in self.splits)

    @property
    def is_last(self) -> bool:
        """True if reading ends here. The task may have those of the splits that are in front of the missing one, so it
        takes no others.
        """
        return self.missing is not None and len(self.splits) > 1


class SplitReader(Closing):
    """Up to `count` tasks of one plan, made when they are needed. `close` deletes them, also one that is being made.
    So does Python when it collects the reader.
    """

    def __init__(self, create_task: Callable[[], Task], count: int) -> None:
        self._create_task = create_task
        self._count = count
        self._closed = False
        self._row_bytes = AHEAD_BYTES / AHEAD_ROWS  # of the last result
        self._tasks: list[tuple[Task, Iterator[Epoch]]] = []
        self._uncollected = weakref.finalize(self, _delete, self._tasks)  # Ctrl-C may come in place of `close`

    @property
    def task(self) -> Task:
        """The first task."""
        return self._task(0)[0]

    @cached_property
    def _ahead(self) -> int:
        return min(AHEAD_EPOCHS, self._count * self.task.options.max_pending_epochs)

    def worth_an_epoch(self, splits: Sequence[TrainingSplit]) -> int:
        """The number of the first of these splits that are best read as one epoch."""
        count, size = 1, self._bytes(splits[0])
        for split in splits[1:]:
            size += self._bytes(split)
            if split.rows is None or size > EPOCH_BYTES:
                break
            count += 1
        return count

    def read(
        self, source: str, epochs: Iterable[Sequence[TrainingSplit]], skipped: Skipped | None
    ) -> Iterator[Iterable[pa.RecordBatch]]:
        """The result's rows for the splits of each of these epochs, in order. May be called once. The rows come as they
        are made: take those of an epoch before you ask for the next one.

        A split that fails raises, unless `skipped` takes it: then it has no rows. Such a split is an epoch by itself.
        """
        coming = enumerate(epochs)
        fed: deque[_Fed] = deque()
        while True:
            self._feed(source, coming, fed)
            if not fed:
                return
            one = fed.popleft()
            yield self._rows(one) if skipped is None else self._all_rows(one, skipped)

    def _bytes(self, split: TrainingSplit) -> float:
        """About the bytes of the result's rows of a split, or of the rows that are sent for it, if they are more."""
        sent = split.data.nbytes if isinstance(split.data, pa.Table) else 0
        return max((split.rows or 0) * self._row_bytes, sent)

    def _all_rows(self, fed: _Fed, skipped: Skipped) -> list[pa.RecordBatch]:
        """All rows of a split that may be skipped: if it fails, those before its end are void."""
        try:
            return list(self._rows(fed))
        except (EpochError, NotFound) as error:
            if isinstance(error, NotFound) and error.reason != FILE_NOT_FOUND:
                raise
            [split] = fed.splits
            skipped(split, error)
            return []

    def _rows(self, fed: _Fed) -> Iterator[pa.RecordBatch]:
        if fed.missing is not None:
            raise fed.missing
        _, epochs = self._task(fed.number)
        size = 0
        for batch in next(epochs):
            size += batch.nbytes
            yield batch
        if fed.rows and size:
            self._row_bytes = size / fed.rows

    def _feed(self, source: str, coming: Iterator[tuple[int, Sequence[TrainingSplit]]], fed: deque[_Fed]) -> None:
        while not (fed and fed[-1].is_last) and (
            len(fed) < self._count
            or (len(fed) < self._ahead and sum(one.rows for one in fed) * self._row_bytes < AHEAD_BYTES)
        ):
            item = next(coming, None)
            if item is None:
                return
            fed.append(self._add(source, *item))

    def _add(self, source: str, number: int, splits: Sequence[TrainingSplit]) -> _Fed:
        task, _ = self._task(number)
        try:
            task.feed_epoch({source: [split.data for split in splits]})
        except NotFound as error:
            return _Fed(number, splits, error)
        return _Fed(number, splits, None)

    def _task(self, number: int) -> tuple[Task, Iterator[Epoch]]:
        """The task of an epoch, made if it is the first that the task reads."""
        if number == len(self._tasks) < self._count:
            uninterrupted(self._add_task)
        return self._tasks[number % self._count]

    def _add_task(self) -> None:
        task = self._create_task()
        self._tasks.append((task, task.epochs()))
        if self._closed:  # by another thread, which has not seen this task
            task.delete()

    def close(self) -> None:
        uninterrupted(self._close)

    def _close(self) -> None:
        self._closed = True
        _delete(self._tasks)
        self._uncollected.detach()


def _delete(tasks: Sequence[tuple[Task, Iterator[Epoch]]]) -> None:
    for task, _ in tuple(tasks):
        with contextlib.suppress(TidegateError):  # the server is gone, and the task with it
            task.delete()
