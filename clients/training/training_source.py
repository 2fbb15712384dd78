"""The data of a loader's epochs: the splits of each, and the windows that they make."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from ..proto.errors import EpochError, InvalidRequest, NotFound, Refused
from ..splits import SplitLike
from ..task import Task
from .batch import Position
from .building.window_build import ReadWindow
from .loader_statistics import Meter
from .order.rows_of_plan import PlanRows
from .order.shards import EpochShards, Grid, epoch_shards
from .order.shuffle import Shuffle, Window, windows
from .sources.training_splits import SplitList, TrainingSplit, list_splits
from .split_reader import SplitReader, SplitReaders

Data: TypeAlias = SplitLike | Sequence[SplitLike]

FILE_NOT_FOUND: Final = "FILE_NOT_FOUND"

KEPT_LISTS: Final = 4
"""Epochs whose splits are kept, if the data is a function of the epoch."""


class _Place(NamedTuple):
    """A window of an epoch, whose splits are among the `listed` ones. Splits that are skipped are told to `meter`."""

    epoch: int
    window: int
    listed: Sequence[TrainingSplit]
    meter: Meter


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
        """The splits of a position's epoch that were skipped before it: those of a window that is yet to begin are not
        among them, however far the loader has read ahead.
        """
        of_epoch = list(self._skipped.get(at.epoch, {}).items())  # a thread that reads ahead may add to it meanwhile
        begun = at.window + (at.row > 0)
        return sorted(split for split, window in of_epoch if window < begun)

    def skip(self, at: Position, splits: Sequence[int]) -> None:
        """Skip in the position's epoch what was skipped before the position, and nothing else that is known."""
        self._skipped[at.epoch] = dict.fromkeys(splits, 0)

    def digest(self, readers: Callable[[], SplitReaders], at: Position) -> str:
        """A digest of the data of a position's epoch; empty at the beginning of an epoch whose data is yet to come."""
        if callable(self._data) and at == Position(at.epoch):
            return ""
        number = self._list_number(at.epoch)
        if number not in self._digests:
            with readers() as listing:
                self.splits(listing.first.task, at.epoch)
        return self._digests[number]

    def _list_number(self, epoch: int) -> int:
        return epoch if callable(self._data) else 0

    def windows(self, task: Task, epoch: int) -> tuple[Window, ...]:
        return windows(self.splits(task, epoch).sizes, self._shuffle, epoch)

    def read(
        self, task: Task, start: Position, epochs: int | None, meter: Meter, *, by_split: bool
    ) -> Iterator[ReadWindow]:
        """The windows from a position on, up to the last of `epochs`. With `by_split`, the rows of each split come by
        themselves.
        """
        for epoch in count(start.epoch) if epochs is None else range(start.epoch, epochs):
            is_known = self._has_known_rows(epoch)
            windows = self.windows(task, epoch)
            first = start.window if epoch == start.epoch else 0
            if first >= len(windows):
                raise Refused(
                    f"the state is at window {first} of epoch {epoch}, which has {len(windows)} windows: give the "
                    "loader the data that the state is of",
                    reason="STATE_MISMATCH",
                )
            listed = self.splits(task, epoch)
            for number in range(first, len(windows)):
                splits = windows[number].splits
                rows = _sum(listed.sizes[split] for split in splits) if is_known else None
                at = _Place(epoch, number, listed.splits, meter)
                yield ReadWindow(
                    epoch=epoch,
                    number=number,
                    window=windows[number],
                    last=number == len(windows) - 1,
                    rows=rows,
                    results=partial(self._results, at, splits, is_alone=by_split or rows is None),
                )

    def _results(
        self, at: _Place, splits: Sequence[int], reader: SplitReader, *, is_alone: bool
    ) -> Iterator[Iterable[pa.RecordBatch]]:
        """The rows of these splits, in order, those together that are read as one epoch."""
        while splits:
            number = 1 if is_alone else reader.worth_an_epoch([at.listed[split] for split in splits])
            yield self._rows(at, splits[:number], reader)
            splits = splits[number:]

    def _rows(self, at: _Place, splits: Sequence[int], reader: SplitReader) -> Iterable[pa.RecordBatch]:
        """The rows of splits that are read as one epoch. One that is skipped has none, and is not read again in its
        epoch.
        """
        skipped = self._skipped.get(at.epoch, {})
        if all(split in skipped for split in splits):
            return ()
        rows = reader.read(self.name, [at.listed[split] for split in splits])
        if len(splits) > 1:
            return rows
        return self._or_none(at, splits[0], rows) if self._skips else self._counted(at, splits[0], rows)

    def _or_none(self, at: _Place, split: int, batches: Iterator[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
        """All rows of a split. If it fails, it is skipped, and the rows before its end are void."""
        try:
            return list(self._counted(at, split, batches))
        except (EpochError, NotFound) as error:
            if isinstance(error, NotFound) and error.reason != FILE_NOT_FOUND:
                raise
            at.meter.skip(at.epoch, at.window, at.listed[split], error)
            self._skipped.setdefault(at.epoch, {})[split] = at.window
            return ()

    def _counted(self, at: _Place, split: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        self._rows_by_split(at.epoch)[split] = rows

    def epoch_shards(
        self, readers: Callable[[], SplitReaders], task: Task, epoch: int, *, batch_size: int, grid: Grid, keeps: bool
    ) -> EpochShards:
        """The shards of an epoch. With `keeps`, the plan gives a row for each row of a split. Otherwise splits that
        were never read are read for the number of their rows, by readers of their own.
        """
        listed, counted = self.splits(task, epoch), self._rows_by_split(epoch)
        known = dict(enumerate(listed.sizes)) if keeps else {}
        counted |= {split: rows for split, rows in known.items() if rows is not None}
        unread = [split for split in range(len(listed.splits)) if split not in counted]
        if unread:

            def count_rows(counting: SplitReader, split: int) -> None:
                counted[split] = sum(batch.num_rows for batch in counting.read(self.name, [listed.splits[split]]))

            with readers() as counting:
                counting.share(unread, count_rows)
        counts = [counted[split] for split in range(len(listed.splits))]
        return epoch_shards(counts, self._shuffle, epoch, batch_size, grid)

    def position_of(self, reader: SplitReader, epoch: int, batch: int, size: int) -> Position | None:
        """The position of a batch of `size` rows; None if the epoch has none of this number.

        Splits before the batch that were never read are read for the number of their rows.
        """
        listed, windows = self.splits(reader.task, epoch), self.windows(reader.task, epoch)
        counted = self._rows_by_split(epoch)
        if self._has_known_rows(epoch):
            counted.update({split: rows for split, rows in enumerate(listed.sizes) if rows is not None})
        # A copy: a thread that reads ahead counts splits, too, and a count that came meanwhile would shift the others.
        known = {**counted, **dict.fromkeys(self._skipped.get(epoch, ()), 0)}
        row = batch * size
        for number, window in enumerate(windows):
            at = _Place(epoch, number, listed.splits, Meter())
            for split in window.splits:
                if split not in known:
                    known[split] = sum(batch.num_rows for batch in self._rows(at, (split,), reader))
            rows = sum(known[split] for split in window.splits)
            if row < rows:
                return Position(epoch, batch, number, row)
            row -= rows
        return None

    def _rows_by_split(self, epoch: int) -> dict[int, int]:
        """The rows of the result of each split of an epoch that was read."""
        return self._result_rows.setdefault(self._list_number(epoch), {})

    def _has_known_rows(self, epoch: int) -> bool:
        """True if the plan gives a row for each row of a split, and no split is skipped: neither by this loader, nor
        by the one whose state it goes on from.
        """
        return self._plan_rows().keeps_rows and not self._skips and not self._skipped.get(epoch)


def _sum(sizes: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)
