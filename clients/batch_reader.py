"""The rows of epochs in batches of one size, read ahead by a thread on request."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from .closing import Closing
from .numbers import from_one, not_negative
from .proto.errors import EpochError, Refused
from .proto.values import Cursor

if TYPE_CHECKING:
    from .epoch import Epoch

_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """An epoch to be read."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class _Item:
    """A batch of an epoch. Without a batch, the epoch's end, with the error of an epoch that was skipped."""

    epoch: Epoch
    batch: pa.RecordBatch | None
    error: EpochError | None = None


class Batches(Closing):
    """An iterator of record batches. No batch has rows of two epochs: the last batch of each epoch is short.

    `cursor` is the position after the batch in hand. Asking for the next batch acknowledges the one before. An error
    is raised after the rows before it. One thread may use the iterator. `close`, the end of a `with` block, or dropping
    the iterator ends the thread that reads ahead.

    >>> with task.batches(1024, prefetch=2) as batches:
    ...     for batch in batches:
    ...         train(batch)
    """

    def __init__(self, parts: Iterator[Part], rows: int | None, prefetch: int) -> None:
        from_one("rows", rows)
        not_negative("prefetch", prefetch)
        self._items: Iterator[_Item] = _items(parts, rows)
        self._cursor: Cursor | None = None
        self._epoch: Epoch | None = None
        self._ahead: _Ahead | None = None
        if prefetch:
            self._items = self._ahead = _Ahead(self._items, prefetch)
            weakref.finalize(self, self._ahead.close)

    @property
    def cursor(self) -> Cursor | None:
        """The cursor to start again from, after the batch in hand; None before the first batch."""
        return self._cursor

    @property
    def epoch(self) -> Epoch | None:
        """The epoch of the batch in hand."""
        return self._epoch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._epoch is not None:
            self._epoch.asked()
        for item in self._items:
            self._epoch = item.epoch
            if item.batch is None:
                item.epoch.hand_out(None)
                self._cursor = Cursor(item.epoch.number + 1, 0)
                if item.error is not None:
                    raise item.error
                continue
            item.epoch.hand_out(item.batch.num_rows)
            self._cursor = item.epoch.cursor
            return item.batch
        raise StopIteration

    def close(self) -> None:
        """Stop reading. Batches that were read ahead and not handed out are not acknowledged."""
        if self._ahead is not None:
            self._ahead.close()
        self._items = iter(())


def _items(parts: Iterator[Part], rows: int | None) -> Iterator[_Item]:
    for part in parts:
        batches = iter(part.epoch.take, None)
        try:
            for batch in batches if rows is None else cut(batches, rows):
                yield _Item(part.epoch, batch)
        except EpochError as error:
            yield _Item(part.epoch, None, error)
            return
        yield _Item(part.epoch, None)


def cut(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of `rows` rows, the last one short. A batch inside of one input batch is a slice of it."""
    held: list[pa.RecordBatch] = []
    count = 0
    failure: Exception | None = None
    try:
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                part = batch.slice(start, rows - count)
                held.append(part)
                start += part.num_rows
                count += part.num_rows
                if count == rows:
                    yield _joined(held)
                    held, count = [], 0
    except Exception as error:  # noqa: BLE001 - raised below, behind the rows before it
        failure = error
    if held:
        yield _joined(held)
    if failure is not None:
        raise failure


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.concat_batches(held)


class _Ahead:
    """Up to `most` items of an iterator ahead, made by a thread that starts when the first item is wanted."""

    def __init__(self, items: Iterator[_Item], most: int) -> None:
        self._items = items
        self._made: queue.Queue[_Item | BaseException | None] = queue.Queue(most)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._over = False

    def __iter__(self) -> Iterator[_Item]:
        return self

    def __next__(self) -> _Item:
        if self._over:
            raise StopIteration
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidegate-prefetch", daemon=True)
            self._thread.start()
        item = self._made.get()
        if isinstance(item, _Item):
            return item
        self._over = True
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        self._over = True
        self._closed.set()

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised where the rows are read
            last = error
        self._put(last)

    def _put(self, item: _Item | BaseException | None) -> bool:
        while not self._closed.is_set():
            try:
                self._made.put(item, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False


def closed(number: int) -> Refused:
    """The error for reading on an epoch that its task has left behind."""
    return Refused(
        f"epoch {number} cannot be read any further: the task has been read on from the middle of this epoch",
        reason="CONSUMED",
    )
