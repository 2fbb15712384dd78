"""The data of a loader's epochs: the splits of each, and the windows that they make."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, tee
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from ..proto.errors import InvalidRequest, Refused, TidegateError
from ..splits import SplitLike
from ..task import Task
from .batch import Position
from .batch_runs import ReadWindow
from .loader_statistics import Meter
from .order.rows_of_plan import PlanRows
from .order.shards import EpochShards, Grid, epoch_shards
from .order.shuffle import Shuffle, Window, windows
from .sources.training_splits import SplitList, TrainingSplit, list_splits
from .split_reader import SplitReader

Data: TypeAlias = SplitLike | Sequence[SplitLike]

KEPT_LISTS: Final = 4
"""Epochs whose splits are kept, if the data is a function of the epoch."""


class _Wanted(NamedTuple):
    """A split to be read, with the window that it is in."""

    epoch: int
    window: int
    split: int


class TrainingSource:
    """The source that a loader feeds. Data that is a function of the epoch is asked for at each epoch's beginning."""

    def __init__(
        self,
        data: Mapping[str, Data | Callable[[int], Data]],
        shuffle: Shuffle | None,
        plan_rows: Callable[[], PlanRows],
        *,
        skips: bool,
    ) -> None:
        if not isinstance(data, Mapping) or len(data) != 1:
            raise InvalidRequest(
                "a loader takes the data of one source, as {'samples': paths}; give the plan's other sources as tables",
                reason="NOT_ONE_SOURCE",
            )
        [(self.name, self._data)] = data.items()
        self._shuffle = shuffle
        self._plan_rows = plan_rows
        self._skips = skips
        self._skipped: dict[int, dict[int, int]] = {}
        self._lists: dict[int, SplitList] = {}
        self._digests: dict[int, str] = {}
        self._result_rows: dict[int, dict[int, int]] = {}
        self._lock = threading.RLock()

    def splits(self, task: Task, epoch: int) -> SplitList:
        """The splits of an epoch, listed once.

        Of data that is a function of the epoch, the splits of the last epochs are kept. Others are listed again, and
        have to be the same.
        """
        number = self._list_number(epoch)
        with self._lock:
            listed = self._lists.pop(number, None)
            if listed is None:
                data = self._data(epoch) if callable(self._data) else self._data
                listed = list_splits(task, self.name, data, self._plan_rows().reads)
            if self._digests.setdefault(number, listed.digest) != listed.digest:
                raise Refused(
                    f"the function that gives the data of epoch {epoch} gives other data than it did before: let it "
                    "give the same data whenever it is called for an epoch",
                    reason="STATE_MISMATCH",
                )
            self._lists[number] = listed
            for oldest in list(self._lists)[:-KEPT_LISTS]:
                del self._lists[oldest]
                self._result_rows.pop(oldest, None)
        return listed

    def skipped(self, at: Position) -> list[int]:
        """The splits of a position's epoch, up to its window, that were skipped."""
        of_epoch = self._skipped.get(at.epoch, {})
        return sorted(split for split, window in of_epoch.items() if window <= at.window)

    def skip(self, at: Position, splits: Sequence[int]) -> None:
        """Skip in the position's epoch what was skipped before the position, and nothing else that is known."""
        self._skipped[at.epoch] = dict.fromkeys(splits, 0)

    def digest(self, create_task: Callable[[], Task], at: Position) -> str:
        """A digest of the data of a position's epoch; empty at the beginning of an epoch whose data is yet to come."""
        if callable(self._data) and at == Position(at.epoch):
            return ""
        number = self._list_number(at.epoch)
        if number not in self._digests:
            with create_task() as task:
                self.splits(task, at.epoch)
        return self._digests[number]

    def _list_number(self, epoch: int) -> int:
        return epoch if callable(self._data) else 0

    def windows(self, task: Task, epoch: int) -> tuple[Window, ...]:
        return windows(self.splits(task, epoch).sizes, self._shuffle, epoch)

    def read(self, reader: SplitReader, start: Position, epochs: int | None, meter: Meter) -> Iterator[ReadWindow]:
        """The windows from a position on, each with its rows, up to the last of `epochs`."""
        ahead, shown = tee(self._order(reader.task, start, epochs))
        wanted = (_Wanted(epoch, number, split) for epoch, number, window, *_ in ahead for split in window.splits)
        results = self._results(reader, wanted, meter)
        for epoch, number, window, last, rows in shown:
            of_splits = islice(results, len(window.splits))
            yield ReadWindow(epoch=epoch, number=number, window=window, last=last, rows=rows, results=of_splits)

    def _results(
        self, reader: SplitReader, wanted: Iterable[_Wanted], meter: Meter
    ) -> Iterator[Iterable[pa.RecordBatch]]:
        """The rows of each of these splits, as `SplitReader.read` gives them. A split that is skipped has none, and is
        not read again in its epoch.
        """
        ahead, shown = tee(wanted)
        fed: deque[_Wanted] = deque()

        def coming() -> Iterator[TrainingSplit]:
            for one in ahead:
                if one.split not in self._skipped.get(one.epoch, ()):
                    fed.append(one)
                    yield self.splits(reader.task, one.epoch).splits[one.split]

        def skipped(split: TrainingSplit, error: TidegateError) -> None:
            meter.skip(fed[0].epoch, split, error)
            self._skipped.setdefault(fed[0].epoch, {})[fed[0].split] = fed[0].window

        results = reader.read(self.name, coming(), skipped if self._skips else None)
        for one in shown:
            if (not fed or fed[0] != one) and one.split in self._skipped.get(one.epoch, ()):
                yield []
                continue
            rows = next(results)
            fed.popleft()
            yield rows if one.split in self._skipped.get(one.epoch, ()) else self._counted(one, rows)

    def _counted(self, one: _Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        self._rows_by_split(one.epoch)[one.split] = rows

    def epoch_shards(
        self, reader: Callable[[], SplitReader], task: Task, epoch: int, batch_size: int, grid: Grid, *, keeps: bool
    ) -> EpochShards:
        """The shards of an epoch. With `keeps`, the plan gives a row for each row of a split. Otherwise splits that
        were never read are read for the number of their rows, by a reader of their own.
        """
        listed, counted = self.splits(task, epoch), self._rows_by_split(epoch)
        known = dict(enumerate(listed.sizes)) if keeps else {}
        counted |= {split: rows for split, rows in known.items() if rows is not None}
        unread = [split for split in range(len(listed.splits)) if split not in counted]
        if unread:
            with reader() as counting:
                results = counting.read(self.name, (listed.splits[split] for split in unread), None)
                for split, result in zip(unread, results, strict=True):
                    counted[split] = sum(batch.num_rows for batch in result)
        counts = [counted[split] for split in range(len(listed.splits))]
        return epoch_shards(counts, self._shuffle, epoch, batch_size, grid)

    def position_of(self, reader: SplitReader, epoch: int, batch: int, size: int) -> Position | None:
        """The position of a batch of `size` rows; None if the epoch has none of this number.

        Splits before the batch that were never read are read for the number of their rows.
        """
        windows = self.windows(reader.task, epoch)
        unread = self._results(reader, list(self._unread(windows, epoch)), Meter())
        row = batch * size
        for number, window in enumerate(windows):
            for split in window.splits:
                if self._rows_of(epoch, split) is None:
                    deque(next(unread), maxlen=0)
            rows = sum(self._rows_of(epoch, split) or 0 for split in window.splits)
            if row < rows:
                return Position(epoch, batch, number, row)
            row -= rows
        return None

    def _unread(self, windows: Sequence[Window], epoch: int) -> Iterator[_Wanted]:
        for number, window in enumerate(windows):
            for split in window.splits:
                if self._rows_of(epoch, split) is None:
                    yield _Wanted(epoch, number, split)

    def _rows_of(self, epoch: int, split: int) -> int | None:
        """The rows of a split's result; None if it was never read."""
        return 0 if split in self._skipped.get(epoch, ()) else self._rows_by_split(epoch).get(split)

    def _rows_by_split(self, epoch: int) -> dict[int, int]:
        """The rows of the result of each split of an epoch that was read."""
        return self._result_rows.setdefault(self._list_number(epoch), {})

    def _order(
        self, task: Task, start: Position, epochs: int | None
    ) -> Iterator[tuple[int, int, Window, bool, int | None]]:
        """(epoch, number, window, last of its epoch, rows if they are known) from a position on."""
        is_known = self._plan_rows().keeps_rows and not self._skips
        for epoch in count(start.epoch) if epochs is None else range(start.epoch, epochs):
            all_windows = self.windows(task, epoch)
            first = start.window if epoch == start.epoch else 0
            if first >= len(all_windows):
                raise Refused(
                    f"the state is at window {first} of epoch {epoch}, which has {len(all_windows)} windows: give the "
                    "loader the data that the state is of",
                    reason="STATE_MISMATCH",
                )
            sizes = self.splits(task, epoch).sizes
            for number in range(first, len(all_windows)):
                window = all_windows[number]
                rows = _sum(sizes[split] for split in window.splits) if is_known else None
                yield epoch, number, window, number == len(all_windows) - 1, rows


def _sum(sizes: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)
