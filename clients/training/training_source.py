"""The data of a loader's epochs: the splits of each, and the windows that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, tee
from typing import Any, TypeAlias

from ..proto.errors import InvalidRequest
from ..splits import SplitLike
from ..task import Task
from .batch import Position
from .batch_runs import ReadWindow
from .loader_statistics import Meter
from .order.shards import EpochShards, epoch_shards
from .order.shuffle import Shuffle, Window, windows
from .split_reader import SplitReader
from .training_splits import SplitList, TrainingSplit, list_splits

Data: TypeAlias = SplitLike | Sequence[SplitLike]


class TrainingSource:
    """The source that a loader feeds. Data that is a function of the epoch is asked for at each epoch's beginning."""

    def __init__(self, data: Mapping[str, Data | Callable[[int], Data]], shuffle: Shuffle | None) -> None:
        if not isinstance(data, Mapping) or len(data) != 1:
            raise InvalidRequest(
                "a loader takes the data of one source, as {'samples': paths}; give the plan's other sources as tables",
                reason="NOT_ONE_SOURCE",
            )
        [(self.name, self._data)] = data.items()
        self._shuffle = shuffle
        self._lists: dict[int, SplitList] = {}
        self._result_rows: dict[tuple[int, int], int] = {}

    def splits(self, task: Task, epoch: int) -> SplitList:
        """The splits of an epoch, listed once."""
        number = self._list_number(epoch)
        if number not in self._lists:
            data = self._data(epoch) if callable(self._data) else self._data
            self._lists[number] = list_splits(task, self.name, data)
        return self._lists[number]

    def digest(self, create_task: Callable[[], Task], at: Position) -> str:
        """A digest of the data of a position's epoch; empty at the beginning of an epoch whose data is yet to come."""
        if callable(self._data) and at == Position(at.epoch):
            return ""
        if self._list_number(at.epoch) not in self._lists:
            with create_task() as task:
                self.splits(task, at.epoch)
        return self._lists[self._list_number(at.epoch)].digest

    def _list_number(self, epoch: int) -> int:
        return epoch if callable(self._data) else 0

    def windows(self, task: Task, epoch: int) -> tuple[Window, ...]:
        return windows(self.splits(task, epoch).sizes, self._shuffle, epoch)

    def read(
        self, reader: SplitReader, start: Position, epochs: int | None, meter: Meter, *, skip: bool
    ) -> Iterator[ReadWindow]:
        """The windows from a position on, each with its rows, up to the last of `epochs`."""
        task = reader.task
        order, shown = tee(self._order(task, start, epochs))
        reading: list[int] = []  # the epochs of splits that are read ahead

        def coming() -> Iterator[TrainingSplit]:
            for epoch, _, window, _ in order:
                for number in window.splits:
                    reading.append(epoch)
                    yield self.splits(task, epoch).splits[number]

        def skipped(split: TrainingSplit, error: Any) -> None:
            meter.skip(reading[0], split, error)

        results = reader.read(self.name, coming(), skipped if skip else None)
        for epoch, number, window, last in shown:
            rows = []
            for split in window.splits:
                rows.append(next(results))
                reading.pop(0)
                self._result_rows[self._list_number(epoch), split] = sum(batch.num_rows for batch in rows[-1])
            yield ReadWindow(epoch=epoch, number=number, window=window, last=last, results=rows)

    def epoch_shards(
        self, reader: Callable[[], SplitReader], task: Task, epoch: int, batch_size: int, shards: int, *, keeps: bool
    ) -> EpochShards:
        """The shards of an epoch. With `keeps`, the plan gives a row for each row of a split. Otherwise splits that
        were never read are read for the number of their rows, by a reader of their own.
        """
        listed, number = self.splits(task, epoch), self._list_number(epoch)
        known = dict(enumerate(listed.sizes)) if keeps else {}
        self._result_rows |= {(number, split): rows for split, rows in known.items() if rows is not None}
        unread = [split for split in range(len(listed.splits)) if (number, split) not in self._result_rows]
        if unread:
            with reader() as counting:
                results = counting.read(self.name, (listed.splits[split] for split in unread), None)
                for split, result in zip(unread, results, strict=True):
                    self._result_rows[number, split] = sum(batch.num_rows for batch in result)
        counts = [self._result_rows[number, split] for split in range(len(listed.splits))]
        return epoch_shards(counts, self._shuffle, epoch, batch_size, shards)

    def position_of(self, reader: SplitReader, epoch: int, batch: int, size: int, *, skip: bool) -> Position | None:
        """The position of a batch of `size` rows; None if the epoch has none of this number.

        Splits before the batch that were never read are read for the number of their rows.
        """
        task = reader.task
        unread = reader.read(self.name, self._unread(task, epoch), (lambda *_: None) if skip else None)
        row = batch * size
        for number, window in enumerate(self.windows(task, epoch)):
            for split in window.splits:
                key = self._list_number(epoch), split
                if key not in self._result_rows:
                    self._result_rows[key] = sum(part.num_rows for part in next(unread))
            rows = sum(self._result_rows[self._list_number(epoch), split] for split in window.splits)
            if row < rows:
                return Position(epoch, batch, number, row)
            row -= rows
        return None

    def _unread(self, task: Task, epoch: int) -> Iterator[TrainingSplit]:
        known = set(self._result_rows)
        for window in self.windows(task, epoch):
            for split in window.splits:
                if (self._list_number(epoch), split) not in known:
                    yield self.splits(task, epoch).splits[split]

    def _order(self, task: Task, start: Position, epochs: int | None) -> Iterator[tuple[int, int, Window, bool]]:
        """(epoch, number, window, last of its epoch) from a position on."""
        for epoch in count(start.epoch) if epochs is None else range(start.epoch, epochs):
            all_windows = self.windows(task, epoch)
            first = start.window if epoch == start.epoch else 0
            for number in range(first, len(all_windows)):
                yield epoch, number, all_windows[number], number == len(all_windows) - 1
