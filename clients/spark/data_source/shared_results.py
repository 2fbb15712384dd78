"""A plan's result that the partitions of a DataFrame share: a task of the server, made when a partition needs it.

Spark keeps the partitions of a loaded DataFrame. It reads them for each query of the DataFrame, in second attempts, and
for both sides of a join at once, and does not tell when the last of these has ended. So every partition asks for the
task under one name, and says when it has read. The server deletes the task once all partitions have said so, or when no
partition has read for a while. The next partition that asks makes the task anew: strict tasks give the same rows again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from ...proto.errors import EpochError, NotFound, OutOfRange, Refused, TaskFailed, TidegateError
from ...proto.service import Service
from ...proto.values import (
    AddRequest,
    Barrier,
    Cursor,
    Data,
    Finished,
    Reader,
    Seal,
    Split,
    TaskPhase,
    Transaction,
    after,
)
from ...transport.remote import RemoteService

T = TypeVar("T")

EPOCH: Final = 1
KEPT_SECONDS: Final = 60.0
"""The time that a task stays when nobody reads it any more, and not all of its partitions were read."""

FILES_CHANGED: Final = "the files that the plan reads have changed since Spark planned its partitions"

_CHANGED: Final = frozenset({"FILE_CHANGED", "FILE_MISSING", "FILE_NOT_FOUND", "NOT_A_FILE"})
_WAIT: Final = 5.0
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows from `first` to before `end`, if there is one, of an epoch of a task. They are of this run of the epoch;
    of any one if it is None.
    """

    task: str
    epoch: int
    first: int
    end: int | None
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a task: so many rows, which belong to this run of its epoch, and are computed from these files."""

    task: str
    total: int
    run: int
    files: str = ""
    """A digest of the names, sizes and times of the files."""


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of one of the partitions of a result."""

    result: Result
    first: int
    end: int
    reader: Reader


def ranges(result: Result, count: int) -> list[Range]:
    """The partitions of a result: ranges of about the same size, in order."""
    bounds = [result.total * part // count for part in range(count + 1)]
    return [Range(result, bounds[part], bounds[part + 1], Reader(part + 1, count)) for part in range(count)]


def at_live_task(service: RemoteService, begin: Callable[[RemoteService], str], look: Callable[[str], T]) -> T:
    """Return what `look` finds at the task that `begin` makes or finds. If another query's reader ends the task
    meanwhile, `begin` makes another one.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return look(begin(service))
        except NotFound as gone:
            if gone.reason != "UNKNOWN_TASK":
                raise
    return look(begin(service))


class SharedTask:
    """A task that `begin` makes or finds: the same one for all who ask under its name. `files` gives the digest of the
    files that a task reads.
    """

    def __init__(
        self,
        service: RemoteService,
        begin: Callable[[RemoteService], str],
        kept_seconds: float,
        files: Callable[[RemoteService, str], str],
    ) -> None:
        self._service = service
        self._begin = begin
        self._kept_seconds = kept_seconds
        self._files = files

    def check_files(self, task: str, computed_from: str) -> None:
        """Raise `Refused`, and let the task go, unless it reads the files of this digest."""
        if self._files(self._service, task) != computed_from:
            self.give_up(task)
            raise changed(FILES_CHANGED)

    def give_up(self, task: str) -> None:
        """Delete the task, which has other rows."""
        with suppress(TidegateError):
            self._service.delete_task(task)


class SharedResult(SharedTask):
    """The rows of a shared task's result."""

    def read(self, wanted: Range) -> Generator[pa.RecordBatch]:
        """The rows of a partition. If the task is deleted meanwhile, the rest comes from the task that follows it."""
        row, left = wanted.first, _ATTEMPTS
        while True:
            try:
                with as_planned():
                    result = self._result(wanted.result)
                with as_planned(), reading(self._service, result.task, wanted.reader, self._kept_seconds):
                    for batch in batches(self._service, Rows(result.task, EPOCH, row, wanted.end, result.run)):
                        row, left = row + batch.num_rows, _ATTEMPTS
                        yield batch
                return
            except NotFound as gone:
                left -= 1
                if not left or gone.reason != "UNKNOWN_TASK":
                    raise
            except OutOfRange as restarted:
                if restarted.reason != "EPOCH_RESTARTED":
                    raise
                raise computed_again() from restarted

    def _result(self, wanted: Result) -> Result:
        """The result that the partitions were cut for."""
        task = self._begin(self._service)
        if task == wanted.task:
            return wanted
        self.check_files(task, wanted.files)
        now = result_of(self._service, task)
        if now.total != wanted.total:
            self.give_up(task)
            raise changed(
                f"the plan's result had {wanted.total:,} rows when Spark planned its partitions, and has {now.total:,} "
                "now: the files that it reads have changed"
            )
        return now


@contextmanager
def reading(service: RemoteService, task: str, reader: Reader, kept_seconds: float) -> Iterator[None]:
    """A context in which the task is not idle. The partition is read at its end, also where Spark ends it early."""
    ended = threading.Event()
    thread = threading.Thread(target=_touch, args=(service, task, kept_seconds, ended), daemon=True)
    thread.start()
    try:
        yield
    except GeneratorExit:
        _end_reading(service, task, reader)
        raise
    finally:
        ended.set()
    _end_reading(service, task, reader)


def _end_reading(service: RemoteService, task: str, reader: Reader) -> None:
    with suppress(TidegateError):  # the server deletes the task later, when it is idle
        service.delete_task(task, reader)


def _touch(service: RemoteService, task: str, kept_seconds: float, ended: threading.Event) -> None:
    while not ended.wait(kept_seconds / 4 or KEPT_SECONDS):
        with suppress(TidegateError):
            service.get_task(task)


@contextmanager
def as_planned() -> Iterator[None]:
    """A context whose errors about files that have changed, or are gone, say that the result has changed."""
    try:
        yield
    except TidegateError as error:
        if error.reason not in _CHANGED:
            raise
        raise changed(f"{FILES_CHANGED} ({error})") from error


def result_of(service: RemoteService, task: str, files: str = "") -> Result:
    """The result of the task's epoch, once it is complete."""
    run = _run(service, task)
    return Result(task, barrier_of(service, task, run).rows, run, files)


def _run(service: RemoteService, task: str) -> int:
    """The run of the task's epoch, as its first row says; 0 if it has no rows."""
    while True:
        for frame in service.next(task, Cursor(EPOCH), max_bytes=1, wait=_WAIT):
            match frame:
                case Data():
                    return frame.cursor.run or 0
                case Barrier():
                    return 0


def computed_again() -> Refused:
    return changed(
        "the service was started again since Spark planned the partitions, and the plan's result may have other rows "
        "now"
    )


def changed(why: str) -> Refused:
    return Refused(f"{why}: load the DataFrame again", reason="RESULT_CHANGED")


def barrier_of(service: RemoteService, task: str, run: int = 0) -> Barrier:
    """The BARRIER of the task's epoch, once it is complete."""
    while True:
        info = service.get_task(task)
        if info.state is TaskPhase.FAILED:
            raise TaskFailed(info.error.message if info.error is not None else "the task has failed")
        cursor = Cursor(EPOCH, info.statistics.output_rows, run)
        try:
            frames = service.next(task, cursor, max_bytes=1, wait=_WAIT)
        except Refused as refused:
            if refused.reason != "OUTPUT_FULL":
                raise
            raise Refused(
                f"the result is larger than option('spill_quota', ...), {info.options.spill_quota} bytes, which the "
                "server keeps until all partitions are read: raise spill_quota",
                reason="OUTPUT_FULL",
            ) from None
        for frame in frames:
            if isinstance(frame, Barrier):
                _check(frame)
                return frame


def fill(service: Service, task: str, splits: Iterable[tuple[str, Split]]) -> None:
    """Feed these splits as the task's only epoch, however often the call is made."""
    once = Transaction(application="read", version=EPOCH)
    service.transact(task, once, AddRequest(splits=[(source, split, None) for source, split in splits], seal=Seal()))


def batches(service: Service, rows: Rows, *, forget: bool = False) -> Generator[pa.RecordBatch]:
    """These rows of an epoch, waiting for those that are not computed yet. With `forget`, the task keeps no rows that
    have been read.
    """
    cursor = Cursor(rows.epoch, rows.first, rows.run or 0)
    while rows.end is None or cursor.row < rows.end:
        frame: Any
        for frame in service.next(rows.task, cursor, acknowledge=cursor if forget else None, wait=_WAIT):
            match frame:
                case Data():
                    if rows.run is not None and frame.cursor.run != rows.run:
                        raise computed_again()
                    row = cursor.row
                    for batch in frame.batches:
                        left = batch.num_rows if rows.end is None else max(0, min(batch.num_rows, rows.end - row))
                        if left:
                            yield batch.slice(0, left)
                        row += batch.num_rows
                    cursor = after(frame, cursor)
                case Barrier():
                    _check(frame)
                    return
                case Finished():
                    return


def _check(barrier: Barrier) -> None:
    if barrier.error is not None:
        raise EpochError(barrier.error.message, epoch=barrier.epoch, reason=barrier.error.reason)
