"""Reads splits in order, each as an epoch of a task. Several tasks take the splits in turns, at the same time."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from ..closing import Closing
from ..epoch import Epoch
from ..proto.errors import EpochError, TidegateError
from ..task import Task
from .training_splits import TrainingSplit

AHEAD_SPLITS: Final = 4
AHEAD_ROWS: Final = 262_144
AHEAD_BYTES: Final = 48 << 20
"""Splits are fed ahead until their results have about so many bytes, by those before; one for each task at least. A
task holds 64 MiB of results in memory, and more of them on disk.
"""

Skipped = Callable[[TrainingSplit, EpochError], None]


class SplitReader(Closing):
    """Up to `count` tasks of one plan, made when they are needed. `close` deletes them."""

    def __init__(self, create_task: Callable[[], Task], count: int) -> None:
        self._create_task = create_task
        self._count = count
        self._closed = False
        self._row_bytes = AHEAD_BYTES / AHEAD_ROWS  # of the last result
        self._tasks: list[tuple[Task, Iterator[Epoch]]] = []
        self._task(0)

    @property
    def task(self) -> Task:
        """The first task."""
        return self._tasks[0][0]

    def read(
        self, source: str, splits: Iterable[TrainingSplit], skipped: Skipped | None
    ) -> Iterator[list[pa.RecordBatch]]:
        """The result's rows for each split, in order. May be called once.

        A split that fails raises, unless `skipped` takes it: then it has no rows.
        """
        coming = enumerate(splits)
        fed: deque[tuple[int, TrainingSplit]] = deque()
        while True:
            self._feed(source, coming, fed)
            if not fed:
                return
            number, split = fed.popleft()
            _, epochs = self._task(number)
            epoch = next(epochs)
            try:
                batches = list(epoch)
            except EpochError as error:
                if skipped is None:
                    raise
                skipped(split, error)
                batches = []
            if split.rows and batches:
                self._row_bytes = sum(batch.nbytes for batch in batches) / split.rows
            yield batches

    def _feed(
        self, source: str, coming: Iterator[tuple[int, TrainingSplit]], fed: deque[tuple[int, TrainingSplit]]
    ) -> None:
        while len(fed) < self._count or (
            len(fed) < AHEAD_SPLITS and sum(split.rows or 0 for _, split in fed) * self._row_bytes < AHEAD_BYTES
        ):
            item = next(coming, None)
            if item is None:
                return
            number, split = item
            task, _ = self._task(number)
            task.add_split(source, split.data)
            task.request_barrier()
            fed.append(item)

    def _task(self, number: int) -> tuple[Task, Iterator[Epoch]]:
        """The task of a split, made if it is the first that the task reads."""
        if number == len(self._tasks) < self._count:
            task = self._create_task()
            self._tasks.append((task, task.epochs()))
            if self._closed:  # by another thread, which has not seen this task
                task.delete()
        return self._tasks[number % self._count]

    def close(self) -> None:
        self._closed = True
        for task, _ in tuple(self._tasks):
            with contextlib.suppress(TidegateError):  # the server is gone, and the task with it
                task.delete()
