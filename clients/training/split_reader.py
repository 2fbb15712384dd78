"""Reads splits one by one through a task: each split is an epoch of the task, and the next ones are fed ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from ..proto.errors import EpochError
from ..task import Task
from .training_splits import TrainingSplit

AHEAD_SPLITS: Final = 4
AHEAD_ROWS: Final = 262_144
"""Splits are fed ahead until they have so many rows; one at least."""

Skipped = Callable[[TrainingSplit, EpochError], None]


def read_splits(
    task: Task, source: str, splits: Iterable[TrainingSplit], skipped: Skipped | None
) -> Iterator[list[pa.RecordBatch]]:
    """The result's rows for each split, in order.

    A split that fails raises, unless `skipped` takes it: then it has no rows.
    """
    coming = iter(splits)
    fed: deque[TrainingSplit] = deque()
    epochs = task.epochs()
    while True:
        _feed(task, source, coming, fed)
        if not fed:
            return
        epoch = next(epochs)
        split = fed.popleft()
        try:
            batches = list(epoch)
        except EpochError as error:
            if skipped is None:
                raise
            skipped(split, error)
            batches = []
        yield batches


def _feed(task: Task, source: str, coming: Iterator[TrainingSplit], fed: deque[TrainingSplit]) -> None:
    while not fed or (len(fed) < AHEAD_SPLITS and sum(split.rows or 0 for split in fed) < AHEAD_ROWS):
        split = next(coming, None)
        if split is None:
            return
        task.add_split(source, split.data)
        task.request_barrier()
        fed.append(split)
