"""A task as its user sees it: feed it, seal an epoch, read the rows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import pyarrow as pa

from .batch_reader import Batches, Part, closed
from .epoch import HOLD_BYTES, Epoch
from .numbers import (
    check_place,
    check_seconds,
    check_sources,
    check_text,
    from_one,
    last_numbers,
    not_negative,
)
from .numbers import version as check_version
from .proto.errors import Exhausted, InvalidRequest, NotFound, Refused
from .proto.service import Service
from .proto.statistics import Statistics
from .proto.values import (
    Added,
    AddRequest,
    Barrier,
    Blocked,
    Checkpoint,
    Committed,
    Cursor,
    FileSplit,
    Finished,
    FoundFile,
    Frame,
    MissingColumns,
    Seal,
    SourceInfo,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
    after,
)
from .splits import SplitLike, file_split
from .transport.feeder import Feed, Step, checkpoint_name, seal_of
from .transport.sending import Sending

if TYPE_CHECKING:
    from .transport.access import Access

POLL_SECONDS: Final = 30.0  # of one long poll; a longer wait takes several


@dataclass(slots=True, eq=False)
class _Ahead:
    """Batches that are read ahead of their user; `over` once another call has read the task."""

    over: bool = False


class Task:
    """A plan that runs. A context manager that deletes the task at its end.

    >>> with client.create_task(plan) as task:
    ...     for day in ("monday.parquet", "tuesday.parquet"):
    ...         epoch = task.run_epoch({"sales": day})
    ...         print(epoch.number, epoch.table().num_rows)
    1 2
    2 1

    One thread may feed while another reads. Asking for the next thing acknowledges the one before, that is, gives it
    back to the server: the next batch acknowledges a batch, the next epoch an epoch. A client that starts again at
    `cursor` therefore finds everything that it was not done with. The exception is an epoch larger than all that the
    server may keep (`output_bytes` and `spill_quota`): such an epoch is acknowledged while it is read, since it could
    not be read to its end otherwise.

    With `eager`, for a task that no client comes back to, rows are acknowledged as they are read. An epoch larger than
    `hold_bytes` is held in a temporary file.
    """

    def __init__(
        self,
        service: Service,
        info: TaskInfo,
        cursor: Cursor | None = None,
        *,
        eager: bool = False,
        hold_bytes: float = HOLD_BYTES,
    ) -> None:
        check_place("cursor", cursor)
        self._service = service
        self._info = info
        self._feed = Feed(service, info)
        self._lock = threading.RLock()
        self._position = cursor or info.acknowledged  # next to fetch
        self._cursor = self._done = self._position  # behind the user's rows; behind those done with
        self._ahead: _Ahead | None = None
        self._acknowledged = info.acknowledged
        self._eager = eager
        self._hold_bytes = hold_bytes
        self._open: Epoch | None = None  # its barrier has not been read
        self._is_out = False  # True if the user has it
        self._timeout: float | None = None  # for waiting for more of it

    @property
    def id(self) -> str:
        """The task's id, by which `Client.task` attaches to it again."""
        return self._info.id

    @property
    def service(self) -> Service:
        """The service that runs the task, in this process or over gRPC."""
        return self._service

    @property
    def access(self) -> Access | None:
        """The access to the server for other processes; None if the service is in this process."""
        return access_of(self._service)

    @property
    def address(self) -> str | None:
        """HOST:PORT of the server; None if the service is in this process."""
        return self._service.address

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._info.schema

    @property
    def sources(self) -> Mapping[str, SourceInfo]:
        """The plan's sources by name, as they were when the task was created or attached to."""
        return {source.name: source for source in self._info.sources}

    @property
    def options(self) -> TaskOptions:
        """The options that the task runs with, including those that the service chose."""
        return self._info.options

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings of planning, which are not errors."""
        return self._info.warnings

    @property
    def cursor(self) -> Cursor:
        """The cursor to start again from. Everything before it has been handed out, and its user is done with it."""
        return self._cursor

    # Feeding

    def add_split(
        self,
        source: str,
        split: SplitLike,
        *,
        sequence: int | None = None,
        epoch: int | None = None,
        watermark: int | None = None,
        change_column: str | None = None,
        missing_columns: MissingColumns | Literal["error", "null"] | None = None,
    ) -> Added:
        """Add a path, `FileSplit`, `upload(path)` or Arrow data to a source.

        - `sequence`: the split's number; if not given, the task counts
        - `epoch`: the epoch that the split must belong to: refused unless it is the open one
        - `watermark`: a number below which the source sends nothing any more
        - `change_column`: in a continuous task, the column that says what each row changes (see `Changes`); if not
          given, all rows are inserted
        - `missing_columns`: `"error"` or `"null"`, as the task's option, which holds if it is not given (see
          `MissingAsNull`)

        >>> task.add_split("sales", monday).sequence
        1
        """
        return self._feed.add(
            source,
            split,
            sequence=sequence,
            epoch=epoch,
            watermark=watermark,
            change_column=change_column,
            missing_columns=missing_columns,
        )

    def request_barrier(
        self,
        epoch: int | None = None,
        *,
        through: Mapping[str, int] | None = None,
        checkpoint: bool | str = False,
        watermarks: Mapping[str, int] | None = None,
        idle: Sequence[str] = (),
    ) -> int:
        """Seal the added splits into the next epoch, and return its number. Does not wait for the epoch.

        With `checkpoint`, True or a name, a checkpoint is taken at the epoch's barrier; `Epoch.checkpoint` is its id.
        `watermarks` says of sources that their later rows are not before these times, as the `watermark` of a split
        does. Sources that are `idle` hold no watermark back in this epoch.

        >>> task.add_split("sales", "sales.parquet").epoch
        1
        >>> task.request_barrier()
        1
        >>> task.read_epoch().num_rows
        2
        """
        return self._feed.seal(epoch, seal_of(checkpoint, watermarks, idle, through))

    def transact(
        self,
        application: str,
        version: int,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        seal: bool,
        follows: int | None = None,
        checkpoint: bool | str = False,
    ) -> Transacted:
        """Add the splits, and seal them with `seal`: all or nothing, and once, however often the call is repeated.

        `version` goes up with each transaction of an application. A version that is not above the last one has been
        there before and changes nothing: the answer, `replayed`, has the epoch that it became a part of then. With
        `follows`, the call is refused unless that is the last version. Only a transaction that seals may ask for a
        `checkpoint` (as in `request_barrier`).

        >>> task.transact("loader", 1, {"sales": monday}, seal=True).epoch
        1
        >>> task.transact("loader", 1, {"sales": monday}, seal=True).replayed
        True
        """
        wanted = checkpoint_name(checkpoint)
        if wanted is not None and not seal:
            raise InvalidRequest("a checkpoint is taken at a barrier: give seal=True, too")
        check_text("application", application)
        check_version("version", version)
        check_version("follows", follows)
        transaction = Transaction(application=application, version=version, follows=follows)
        return self._feed.transact(transaction, splits, seals=seal, checkpoint=wanted)

    def find_files(
        self, source: str, split: str | os.PathLike[str] | FileSplit, *, pieces: bool = False
    ) -> Sequence[FoundFile]:
        """The files that a split would bring to a source, with the values in folders' names.

        The split is a path of the server, or a `FileSplit`. The files are in reading order. Refused as adding the split
        would be; nothing is added. With `pieces`, the server opens the files and says the rows of the parts that it
        reads as a whole.

        >>> [file.format for file in task.find_files("sales", "*.parquet")]
        ['parquet', 'parquet', 'parquet']
        """
        check_text("a source's name", source)
        wanted = split if isinstance(split, FileSplit) else FileSplit(split)  # type: ignore[arg-type] # made text below
        return self._service.find_files(self.id, source, file_split(wanted), pieces=pieces)

    def last_transaction(self, application: str) -> Committed | None:
        """The last version of an application, and its epoch; None if the task knows no transaction of it."""
        check_text("application", application)
        return self._service.last_transaction(self.id, application)

    def no_more_splits(self, source: str | None = None, *, through: Mapping[str, int] | None = None) -> None:
        """End a source, or all of them."""
        check_sources([] if source is None else [source])
        last_numbers(through)
        self._service.no_more_splits(self.id, source, through)

    def feed_epoch(
        self,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        checkpoint: bool | str = False,
        watermarks: Mapping[str, int] | None = None,
        idle: Sequence[str] = (),
    ) -> int:
        """Add the splits and seal them into the next epoch, and return its number. Does not wait for the epoch.

        The same as `add_split` for each, then `request_barrier`, but as one call: a durable task waits for the disk
        once. (More than 8 MiB of rows, or 1,000 splits, take several calls. If this program ends between them, the
        splits so far are in the open epoch; `transact` adds all of them or none.)

        Refused while there are splits of any client that are not sealed. A call that was refused, for
        example because too many epochs are unread, may be repeated with the same splits: none is added twice. (A
        `RecordBatchReader` hands its rows out once: repeat the call with a new one.)

        >>> task.feed_epoch({"sales": "monday.parquet"}), task.feed_epoch({"sales": "tuesday.parquet"})
        (1, 2)
        >>> task.read_epoch().to_pylist()
        [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]
        """
        return self._feed.feed(splits, seal_of(checkpoint, watermarks, idle))

    def run_epoch(
        self,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        checkpoint: bool | str = False,
        watermarks: Mapping[str, int] | None = None,
        idle: Sequence[str] = (),
    ) -> Epoch:
        """Feed the splits, seal them, and read the result. Returns once the epoch is complete.

        Refused while there are unread epochs, or splits of any client that are not sealed. Raises `EpochError` if the
        epoch was skipped. `checkpoint`, `watermarks` and `idle` are those of `request_barrier`.

        >>> task.run_epoch({"sales": ["monday.parquet", "tuesday.parquet"]}).table().to_pylist()
        [{'item': 'cup', 'total': 17}, {'item': 'tea', 'total': 7}]
        """
        with self._lock:
            return self._whole(self._started(splits, seal_of(checkpoint, watermarks, idle)))

    def start_epoch(
        self,
        splits: Mapping[str, SplitLike | Sequence[SplitLike]],
        *,
        checkpoint: bool | str = False,
        watermarks: Mapping[str, int] | None = None,
        idle: Sequence[str] = (),
    ) -> Epoch:
        """Feed the splits, seal them, and begin to read the result: iterate the epoch for its batches as they are made.

        The same as `run_epoch`, but returns before the epoch is complete, so a large result need not be held as a
        whole. If the epoch fails or is skipped, reading it raises.

        >>> for batch in task.start_epoch({"sales": ["monday.parquet", "tuesday.parquet"]}):
        ...     print(batch.num_rows)
        2
        """
        with self._lock:
            epoch = self._started(splits, seal_of(checkpoint, watermarks, idle))
            self._timeout, self._is_out = None, True
            return epoch

    def _started(self, splits: Mapping[str, SplitLike | Sequence[SplitLike]], seal: Seal) -> Epoch:
        """The epoch of these splits, of which some may have been read."""
        self._stand()
        self._feed.check_sealed()  # the rest of an epoch that is not sealed may never come
        self._finish_left()
        number = self._feed.sealed + 1
        if self._position.epoch < number:
            first, last = self._position.epoch, number - 1
            which = f"epoch {first} is" if first == last else f"epochs {first} to {last} are"
            raise Refused(f"{which} sealed and unread: call read_epoch() first", reason="UNREAD_EPOCHS")
        epoch = self._begin()
        with self._feed.sending(self._give_back) as send:
            for step in self._feed.steps(splits, send):
                self._fed(step, number, seal, send)
        return epoch

    def _fed(self, step: Step, number: int, seal: Seal, send: Sending) -> None:
        """Feed a step. If the server takes no more until something was read, read first."""
        while True:
            try:
                due = self._due()
                frames = self._feed.take(step, number, seal, send, partial(self._send, due))
            except Exhausted as full:
                if full.reason != "OUTPUT_UNREAD":
                    raise
                self._frames(wait=1.0)
                self.acknowledge(self._position)
            else:
                self._feed.taken(step, number)
                if step.through is not None:
                    self._taken(frames, due)
                return

    def _send(self, due: Cursor | None, request: AddRequest) -> Sequence[Frame]:
        """Add splits; if they are the last of their epoch, read it, and acknowledge `due`."""
        if request.seal is None:
            self._service.add_splits(self.id, request)
            return ()
        return self._service.run_epoch(self.id, request, self._position, acknowledge=due)

    # Reading

    def read_epoch(self) -> pa.Table:
        """The rows of the next unread epoch.

        Refused if nothing is sealed, or the task has finished. Raises `EpochError` if the epoch was skipped, and the
        error that ended a task that was cancelled or has failed.
        """
        with self._lock:
            self._stand()
            self._finish_left()
            running = self._position.epoch <= self._feed.sealed or self._feed.refresh()
            if running and self._position.epoch > self._feed.sealed:
                raise Refused(
                    f"epoch {self._position.epoch} is not sealed: call request_barrier() first", reason="NOTHING_SEALED"
                )
            return self._whole(self._begin()).table()

    def epochs(self, timeout: float | None = None) -> Iterator[Epoch]:
        """Every epoch from here on, until the task has finished, each once some of it is there.

        Iterate an epoch for its rows.

        A skipped epoch has `error` set. When the next epoch is asked for, the rest of the last one is read and held.
        Waits at most `timeout` seconds for rows or an epoch's end, then raises `TimeoutError`, after which you may go
        on.

        >>> task.add_split("sales", monday).epoch
        1
        >>> task.request_barrier()
        1
        >>> task.no_more_splits()
        >>> for epoch in task.epochs():
        ...     print(epoch.number, epoch.table().num_rows)
        1 2
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        return self._epochs(timeout)

    def _epochs(self, timeout: float | None, ahead: _Ahead | None = None) -> Iterator[Epoch]:
        while True:
            with self._lock:
                self._timeout = timeout
                epoch = self._begin(ahead)
                if not self._read_on(epoch):
                    return
                self._is_out = True
            yield epoch
            epoch.finish()

    def batches(self, rows: int | None = None, *, prefetch: int = 0) -> Batches:
        """The rows of every epoch from `cursor` on, as they are made, in batches of `rows`, or as they come.

        The last batch of each epoch is short. A skipped epoch raises its `EpochError`. The next call that reads the
        task goes on after the last batch that was handed out, and ends this iterator.

        With `prefetch`, a thread reads up to so many batches ahead; nothing else may read this `Task` meanwhile.

        >>> _ = task.add_split("sales", monday), task.request_barrier(), task.no_more_splits()
        >>> [batch.num_rows for batch in task.batches(rows=1)]
        [1, 1]
        """
        return Batches(map(Part, self._epochs(None, _Ahead())), rows, prefetch)

    def next(
        self,
        cursor: Cursor | None = None,
        *,
        acknowledge: Cursor | None = None,
        max_bytes: int | None = None,
        wait: float = 0.0,
    ) -> Sequence[Frame]:
        """Frames as they come, from `cursor` or the reading position on: `Data`, `Blocked`, `Barrier`, `Finished`.

        Waits up to `wait` seconds for a frame other than `Blocked`. Acknowledges only up to `acknowledge`.

        >>> _ = task.add_split("sales", monday), task.request_barrier()
        >>> type(task.next(wait=10)[0]).__name__
        'Data'
        """
        check_place("cursor", cursor)
        check_place("acknowledge", acknowledge)
        not_negative("max_bytes", max_bytes)
        check_seconds("wait", wait)
        with self._lock:
            self._stand()
            left = None if self._is_out else self._open
            position = self._position if left is None else left.cursor
            frames = self._service.next(
                self.id, cursor or position, acknowledge=acknowledge, max_bytes=max_bytes, wait=wait
            )
            self._open = None
            self._position = cursor or position
            for frame in frames:
                self._position = after(frame, self._position)
            self._cursor = self._done = self._position
            self._acknowledged = max(self._acknowledged, acknowledge or self._acknowledged)
            return frames

    def acknowledge(self, cursor: Cursor | None = None) -> None:
        """Let the server forget everything before `cursor`, or before this client's position."""
        check_place("cursor", cursor)
        self._service.acknowledge(self.id, cursor or self._cursor)
        self._acknowledged = max(self._acknowledged, cursor or self._cursor)

    def _stand(self, ahead: _Ahead | None = None) -> None:
        """Go on from the user's position, if another iterator has read ahead."""
        if ahead is self._ahead:
            return
        if ahead is not None and ahead.over:
            raise Refused(
                "these batches cannot be read any further, because another iterator of the task has read on since: "
                "make a new iterator",
                reason="CONSUMED",
            )
        if self._ahead is not None:
            self._ahead.over = True
            self._open, self._position = None, self._cursor
        self._ahead = ahead

    def _begin(self, ahead: _Ahead | None = None) -> Epoch:
        """Begin the next epoch. The user is done with those before, unless the epoch is read ahead."""
        self._stand(ahead)
        self._finish_left()
        if self._open is None:
            if ahead is None:
                self._cursor = self._done = self._position
            self._open = Epoch(self, self._position, self.schema, self._hold_bytes)
            self._is_out = False
        return self._open

    def _finish_left(self) -> None:
        """Read the rest of an epoch that the user has read a part of."""
        if self._open is not None and self._is_out and not self._open.untouched:
            self._open.finish()

    def _whole(self, epoch: Epoch) -> Epoch:
        """A sealed epoch, once it is complete."""
        self._timeout = None
        while not epoch.complete:
            if not self._read_on(epoch):
                raise Refused("the task has finished: there are no more epochs", reason="TASK_FINISHED")
        if (error := epoch.error) is not None:
            raise error
        return epoch

    def read_on(self, epoch: Epoch) -> None:
        """Wait for more of an epoch that the user has, and hand it over."""
        with self._lock:
            if epoch.complete:
                return
            if epoch is not self._open:
                raise closed(epoch.number)
            if not self._read_on(epoch):
                raise Refused(f"the task has finished, and has no epoch {epoch.number}", reason="TASK_FINISHED")

    def _read_on(self, epoch: Epoch) -> bool:
        """Read until there is more of the epoch, or its end; False if the task has finished.

        If this raises, the frames read before stay.
        """
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        wait = 0.0  # at first, to see at once if nothing can come
        while not epoch.complete:
            before = self._position
            frames = self._frames(wait)
            if self._position != before:
                return True
            match frames[-1] if frames else None:
                case Finished():
                    self._open = None
                    return False
                case Blocked() if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"epoch {self._position.epoch} did not come within {self._timeout:g} s")
                case Blocked(missing=missing) if deadline is None and missing:
                    raise self._unsealable(missing)
                case _:
                    left = POLL_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
                    wait = min(POLL_SECONDS, left)
        return True

    def _unsealable(self, missing: Mapping[str, tuple[int, ...]]) -> Refused:
        numbers = "; ".join(f"{source}: {', '.join(map(str, some))}" for source, some in missing.items())
        return Refused(f"epoch {self._position.epoch} waits for splits that are missing ({numbers})", reason="MISSING")

    def _frames(self, wait: float) -> Sequence[Frame]:
        """Read from the position on, into the open epoch."""
        due = self._due()
        try:
            frames = self._service.next(self.id, self._position, acknowledge=due, wait=wait)
        except Refused as refused:
            if refused.reason != "OUTPUT_FULL":
                raise
            self.acknowledge(self._position)
            return ()
        self._taken(frames, due)
        return frames

    def _due(self) -> Cursor | None:
        """The cursor to acknowledge with the next call: behind the rows that the user is done with."""
        done = self._position if self._eager else self._done
        return done if done > self._acknowledged else None

    def _give_back(self) -> None:
        """Acknowledge at once what the next call would, because a file of that call may need the room."""
        if (due := self._due()) is not None:
            self.acknowledge(due)

    def _taken(self, frames: Sequence[Frame], acknowledged: Cursor | None) -> None:
        self._acknowledged = acknowledged or self._acknowledged
        epoch = self._open
        for frame in frames:
            self._position = after(frame, self._position)
            if isinstance(frame, Barrier):
                self._feed.sealed = max(self._feed.sealed, frame.epoch)
                self._open = None
                if frame.error is not None and self._ahead is None:  # its rows are void
                    self._cursor = self._position
        if epoch is not None:
            epoch.took(frames)

    def moved(self, cursor: Cursor, done: Cursor, *, now: bool) -> None:
        """Record that an epoch's reader has come to `cursor`, and is done with everything before `done`.

        The next call acknowledges `done`; with `now`, it is acknowledged at once.
        """
        self._cursor = max(cursor, self._cursor)
        self._done = max(done, self._done)
        if now and self._done > self._acknowledged:
            self._service.acknowledge(self.id, self._done)
            self._acknowledged = self._done

    # The task itself

    def checkpoints(self) -> Sequence[Checkpoint]:
        """The checkpoints of the task, by their epochs."""
        return self._service.list_checkpoints(self.id)

    def info(self) -> TaskInfo:
        """The service's description of the task now."""
        return self._service.get_task(self.id)

    def statistics(self) -> Statistics:
        """The task's counters. Times are in microseconds."""
        return self.info().statistics

    def cancel(self) -> None:
        """End the task. Every waiting call learns of it."""
        self._service.cancel_task(self.id)

    def recover(self, skip: Iterable[tuple[str, int]] = ()) -> TaskInfo:
        """Have a durable task that has failed go on, once the reason is gone: a file is back, or rows that fail are in
        `skip`. These splits, (source, number), have no rows from then on, and `warnings` of its description say so.

        Reading goes on where it stood.
        """
        chosen = list(skip)
        for _, sequence in chosen:
            from_one("skip", sequence)
        return self._service.recover_task(self.id, chosen)

    def delete(self) -> None:
        """Cancel the task if it still runs, and forget it. Deleting it again does nothing."""
        try:
            self._service.delete_task(self.id)
        except NotFound:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    def __repr__(self) -> str:
        return f"<tidegate.Task {self.id} at {self._cursor.epoch}:{self._cursor.row}>"


def access_of(service: Service) -> Access | None:
    """The access to a service for other processes; None if the service is in this process, which needs no gRPC."""
    if service.address is None:
        return None
    from .transport.remote import RemoteService

    return service.access if isinstance(service, RemoteService) else None
