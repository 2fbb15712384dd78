"""The data of a loader's epochs: the splits of each, and the windows that they make."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, tee
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
    """Splits to be read as one epoch of a task, with the window that they are in."""

    epoch: int
    window: int
    splits: tuple[int, ...]


class _Place(NamedTuple):
    """A window in the order of windows, with its rows, where their number is known before they are read."""

    epoch: int
    number: int
    window: Window
    last: bool
    rows: int | None


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
        of_epoch = list(self._skipped.get(at.epoch, {}).items())  # a thread that reads ahead may add to it meanwhile
        return sorted(split for split, window in of_epoch if window <= at.window)

    def skip(self, at: Position, splits: Sequence[int]) -> None:
        """Skip in the position's epoch what was skipped before the position, and nothing else that is known."""
        self._skipped[at.epoch] = dict.fromkeys(splits, 0)

    def digest(self, reader: Callable[[], SplitReader], at: Position) -> str:
        """A digest of the data of a position's epoch; empty at the beginning of an epoch whose data is yet to come."""
        if callable(self._data) and at == Position(at.epoch):
            return ""
        number = self._list_number(at.epoch)
        if number not in self._digests:
            with reader() as listing:
                self.splits(listing.task, at.epoch)
        return self._digests[number]

    def _list_number(self, epoch: int) -> int:
        return epoch if callable(self._data) else 0

    def windows(self, task: Task, epoch: int) -> tuple[Window, ...]:
        return windows(self.splits(task, epoch).sizes, self._shuffle, epoch)

    def read(
        self, reader: SplitReader, start: Position, epochs: int | None, meter: Meter, *, by_split: bool
    ) -> Iterator[ReadWindow]:
        """The windows from a position on, each with its rows, up to the last of `epochs`. With `by_split`, the rows of
        each split come by themselves.
        """
        ahead, shown = tee(self._order(reader.task, start, epochs))
        wanted = (one for window in ahead for one in self._wanted(reader, window, by_split=by_split))
        results = self._results(reader, wanted, meter)
        for at in shown:
            yield ReadWindow(
                epoch=at.epoch,
                number=at.number,
                window=at.window,
                last=at.last,
                rows=at.rows,
                results=_of_splits(results, len(at.window.splits)),
            )

    def _wanted(self, reader: SplitReader, at: _Place, *, by_split: bool) -> Iterator[_Wanted]:
        """The splits of a window, those together that are read as one epoch."""
        listed, left = self.splits(reader.task, at.epoch).splits, at.window.splits
        is_alone = by_split or at.rows is None
        while left:
            count = 1 if is_alone else reader.worth_an_epoch([listed[split] for split in left])
            yield _Wanted(at.epoch, at.number, left[:count])
            left = left[count:]

    def _results(
        self, reader: SplitReader, wanted: Iterable[_Wanted], meter: Meter
    ) -> Iterator[tuple[int, Iterable[pa.RecordBatch]]]:
        """The number of the splits of each of these, and their rows, as `SplitReader.read` gives them. A split that is
        skipped has none, and is not read again in its epoch.
        """
        ahead, shown = tee(wanted)
        fed: deque[_Wanted] = deque()

        def coming() -> Iterator[Sequence[TrainingSplit]]:
            for one in ahead:
                if not self._skips_all(one):
                    fed.append(one)
                    listed = self.splits(reader.task, one.epoch).splits
                    yield [listed[split] for split in one.splits]

        def skipped(split: TrainingSplit, error: TidegateError) -> None:
            meter.skip(fed[0].epoch, split, error)
            self._skipped.setdefault(fed[0].epoch, {})[fed[0].splits[0]] = fed[0].window

        results = reader.read(self.name, coming(), skipped if self._skips else None)
        for one in shown:
            if (not fed or fed[0] != one) and self._skips_all(one):
                yield len(one.splits), []
                continue
            rows = next(results)
            fed.popleft()
            yield len(one.splits), rows if self._skips_all(one) else self._counted(one, rows)

    def _skips_all(self, one: _Wanted) -> bool:
        skipped = self._skipped.get(one.epoch, ())
        return all(split in skipped for split in one.splits)

    def _counted(self, one: _Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        if len(one.splits) == 1:
            self._rows_by_split(one.epoch)[one.splits[0]] = rows

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
                results = counting.read(self.name, ([listed.splits[split]] for split in unread), None)
                for split, result in zip(unread, results, strict=True):
                    counted[split] = sum(batch.num_rows for batch in result)
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
        unread = self._results(reader, list(_unread(windows, epoch, known)), Meter())
        row = batch * size
        for number, window in enumerate(windows):
            for split in window.splits:
                if split not in known:
                    _, results = next(unread)
                    known[split] = sum(batch.num_rows for batch in results)
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

    def _order(self, task: Task, start: Position, epochs: int | None) -> Iterator[_Place]:
        """The windows from a position on."""
        for epoch in count(start.epoch) if epochs is None else range(start.epoch, epochs):
            is_known = self._has_known_rows(epoch)
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
                yield _Place(epoch, number, window, number == len(all_windows) - 1, rows)


def _unread(windows: Sequence[Window], epoch: int, known: Mapping[int, int]) -> Iterator[_Wanted]:
    """The splits without a known number of rows, each by itself, in the order of the windows."""
    for number, window in enumerate(windows):
        for split in window.splits:
            if split not in known:
                yield _Wanted(epoch, number, (split,))


def _of_splits(
    results: Iterator[tuple[int, Iterable[pa.RecordBatch]]], count: int
) -> Iterator[Iterable[pa.RecordBatch]]:
    """The next results, up to those of so many splits in all."""
    while count:
        splits, rows = next(results)
        count -= splits
        yield rows


def _sum(sizes: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)
