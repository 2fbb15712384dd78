"""A task as its user sees it: feed, seal, read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from .batch_reader import Batches, Part, closed
from .epoch import Epoch
from .numbers import check_place, checked_file, last_numbers, not_negative
from .numbers import version as check_version
from .proto.errors import Exhausted, InvalidRequest, NotFound, Refused
from .proto.service import Service
from .proto.statistics import Statistics
from .proto.values import (
    Added,
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
    SourceInfo,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
    after,
)
from .splits import SplitLike
from .transport.feeder import Feed, Step, checkpoint_name
from .transport.holding import HOLD_BYTES

if TYPE_CHECKING:
    from .transport.access import Access

POLL_SECONDS: Final = 30.0  # of one long poll; waiting longer is several


@dataclass(slots=True, eq=False)
class _Ahead:
    """Batches, which are read ahead of their user; `over` once something else has read the task."""

    over: bool = False


class Task:
    """A plan being run. A context manager that deletes the task at its end.

    One thread may feed while another reads. What was read is acknowledged, that is given back to the server, when
    the next thing is asked for: a batch when the next one is pulled, an epoch when the next one is read. So a client
    that starts again at `cursor` finds everything that it was not yet done with; except of an epoch beyond all the
    server may keep (`output_bytes` and `spill_quota`), which cannot be read to its end otherwise.
    With `eager`, for a task that nobody comes back to, rows are acknowledged as they are read. An epoch beyond
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
        self._cursor = self._done = self._position  # behind what the user has; behind what the user is done with
        self._ahead: _Ahead | None = None
        self._acknowledged = info.acknowledged
        self._eager = eager
        self._hold_bytes = hold_bytes
        self._open: Epoch | None = None  # of which the barrier has not been read
        self._is_out = False  # and which the user has
        self._timeout: float | None = None  # of waiting for more of it

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def service(self) -> Service:
        """What runs the task, in this process or over gRPC."""
        return self._service

    @property
    def access(self) -> Access | None:
        """How other processes reach the server; None where the service is in this process."""
        return access_of(self._service)

    @property
    def address(self) -> str | None:
        """HOST:PORT of the server; None where the service is in this process."""
        return self._service.address

    @property
    def schema(self) -> pa.Schema:
        """Of the result."""
        return self._info.schema

    @property
    def sources(self) -> Mapping[str, SourceInfo]:
        """The plan's sources by name, as they were when the task was created or attached to."""
        return {source.name: source for source in self._info.sources}

    @property
    def options(self) -> TaskOptions:
        return self._info.options

    @property
    def warnings(self) -> Sequence[str]:
        """What planning had to say that is not an error."""
        return self._info.warnings

    @property
    def cursor(self) -> Cursor:
        """Where to start again: everything before it has been handed out and is done with."""
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
        missing_columns: MissingColumns | str | None = None,
    ) -> Added:
        """Add a path, `FileSplit`, `upload(path)` or Arrow data to a source.

        `sequence` is counted by the task unless given; `epoch` refuses unless that is the open epoch. In a continuous
        task `change_column` names the column that says what each row is (see `Changes`); without one all are inserted.
        `missing_columns`, "error" or "null", is as the task's option, which holds without it (see `MissingAsNull`).
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
    ) -> int:
        """Seal what was added into the next epoch and return its number. Does not wait for the epoch.

        With `checkpoint`, True or a name, a checkpoint is taken at its barrier: `Epoch.checkpoint` is its id.
        """
        return self._feed.seal(epoch, through, checkpoint_name(checkpoint))

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
        """Add the splits, and seal them if so wanted: all or nothing, and once, however often it is said.

        `version` goes up with each transaction of an application. One that is not above its last has been there before
        and changes nothing: the answer, `replayed`, is the epoch that it became a part of then. With `follows`, refused
        unless that is the last version. Only one that seals may ask for a `checkpoint` (as in `request_barrier`).
        """
        wanted = checkpoint_name(checkpoint)
        if wanted is not None and not seal:
            raise InvalidRequest("a checkpoint is taken at a barrier: ask for it with seal=True")
        check_version("version", version)
        check_version("follows", follows)
        transaction = Transaction(application=application, version=version, follows=follows)
        return self._feed.transact(transaction, splits, seals=seal, checkpoint=wanted)

    def find_files(self, source: str, split: str | os.PathLike[str] | FileSplit) -> Sequence[FoundFile]:
        """The files that a path of the server's, or a `FileSplit`, would bring to a source, in their order, with what
        the names of folders tell. Refused as adding it would be; nothing is added.
        """
        wanted = split if isinstance(split, FileSplit) else FileSplit(os.fsdecode(split))
        return self._service.find_files(self.id, source, checked_file(wanted))

    def last_transaction(self, application: str) -> Committed | None:
        """The last version of an application, and the epoch that it became; None where the task knows none."""
        return self._service.last_transaction(self.id, application)

    def no_more_splits(self, source: str | None = None, *, through: Mapping[str, int] | None = None) -> None:
        """End a source, or all of them."""
        last_numbers(through)
        self._service.no_more_splits(self.id, source, through)

    def run_epoch(
        self, splits: Mapping[str, SplitLike | Sequence[SplitLike]], *, checkpoint: bool | str = False
    ) -> Epoch:
        """Feed the splits, seal them, read the result; returns once the epoch is complete.

        Refused while epochs are unread or splits of somebody (of this client too) are not sealed. Raises
        `EpochError` where the epoch was skipped. `checkpoint` as in `request_barrier`.
        """
        wanted = checkpoint_name(checkpoint)
        with self._lock:
            self._stand()
            number = self._feed.sealed + 1
            if self._position.epoch < number:
                first, last = self._position.epoch, number - 1
                which = f"epoch {first} is" if first == last else f"epochs {first} to {last} are"
                raise Refused(f"{which} sealed and unread: read_epoch() first", reason="UNREAD_EPOCHS")
            epoch = self._begin()
            with self._feed.sending(self._give_back) as send:
                for step in self._feed.steps(splits, send):
                    self._fed(step, number, wanted)
            return self._whole(epoch)

    def _fed(self, step: Step, number: int, checkpoint: str | None) -> None:
        """Feed, and read where the server takes no more until something was read."""
        while True:
            try:
                due = self._due()
                frames = self._feed.take(step, number, self._position, due, checkpoint)
            except Exhausted as full:
                if full.reason != "OUTPUT_UNREAD":
                    raise
                self._frames(wait=1.0)
                self.acknowledge(self._position)
            else:
                if step.through is not None:
                    self._taken(frames, due)
                return

    # Reading

    def read_epoch(self) -> pa.Table:
        """The next unread epoch. Refused when nothing is sealed, or the task has finished; raises `EpochError` where
        the epoch was skipped, and what ended a task that was cancelled or has failed.
        """
        with self._lock:
            self._stand()
            self._finish_left()
            running = self._position.epoch <= self._feed.sealed or self._feed.refresh()
            if running and self._position.epoch > self._feed.sealed:
                raise Refused(
                    f"epoch {self._position.epoch} is not sealed: request_barrier() first", reason="NOTHING_SEALED"
                )
            return self._whole(self._begin()).table()

    def epochs(self, timeout: float | None = None) -> Iterator[Epoch]:
        """Every epoch from here on, until the task has finished, each once something of it is there: iterate it for its
        rows as they are made. A skipped one has `error` set.

        What is left of an epoch when the next one is asked for is read and held. Waits for rows, or an epoch's end, at
        most `timeout` seconds (then `TimeoutError`, after which one may go on).
        """
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
        """The rows of every epoch from `cursor` on as they are made, in batches of `rows` (of each epoch the last one
        is short), or as they come. A skipped epoch raises its `EpochError`. What reads the task next goes on behind the
        last batch that was handed out, and ends this iterator.

        With `prefetch`, a thread reads up to so many batches ahead; nothing else may read this `Task` meanwhile.
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
        """Frames as they come: `Data`, `Blocked`, `Barrier`, `Finished`, from `cursor` (or where reading stands) on.

        Waits up to `wait` seconds for something other than `Blocked`. Acknowledges only what it is told to.
        """
        check_place("cursor", cursor)
        check_place("acknowledge", acknowledge)
        not_negative("max_bytes", max_bytes)
        not_negative("wait", wait)
        with self._lock:
            self._stand()
            left = None if self._is_out else self._open
            place = self._position if left is None else left.cursor
            frames = self._service.next(
                self.id, cursor or place, acknowledge=acknowledge, max_bytes=max_bytes, wait=wait
            )
            self._open = None
            self._position = cursor or place
            for frame in frames:
                self._position = after(frame, self._position)
            self._cursor = self._done = self._position
            self._acknowledged = max(self._acknowledged, acknowledge or self._acknowledged)
            return frames

    def acknowledge(self, cursor: Cursor | None = None) -> None:
        """Let the server forget everything before `cursor` (before where this client stands)."""
        check_place("cursor", cursor)
        self._service.acknowledge(self.id, cursor or self._cursor)
        self._acknowledged = max(self._acknowledged, cursor or self._cursor)

    def _stand(self, ahead: _Ahead | None = None) -> None:
        """Go on where the user stands, if somebody else has read ahead."""
        if ahead is self._ahead:
            return
        if ahead is not None and ahead.over:
            raise Refused("the task has been read on by others since these batches were begun", reason="CONSUMED")
        if self._ahead is not None:
            self._ahead.over = True
            self._open, self._position = None, self._cursor
        self._ahead = ahead

    def _begin(self, ahead: _Ahead | None = None) -> Epoch:
        """The user asks for the next epoch, so is done with those before, unless it is read ahead."""
        self._stand(ahead)
        self._finish_left()
        if self._open is None:
            if ahead is None:
                self._cursor = self._done = self._position
            self._open = Epoch(self, self._position, self.schema, self._hold_bytes)
            self._is_out = False
        return self._open

    def _finish_left(self) -> None:
        """Read what is left of an epoch of which the user has read a part."""
        if self._open is not None and self._is_out and not self._open.untouched:
            self._open.finish()

    def _whole(self, epoch: Epoch) -> Epoch:
        """An epoch that is sealed, once it is complete."""
        self._timeout = None
        while not epoch.complete:
            if not self._read_on(epoch):
                raise Refused("the task has finished: there is no further epoch", reason="TASK_FINISHED")
        if (error := epoch.error) is not None:
            raise error
        return epoch

    def read_on(self, epoch: Epoch) -> None:
        """For an epoch that the user has: wait for more of it, and hand it over."""
        with self._lock:
            if epoch.complete:
                return
            if epoch is not self._open:
                raise closed(epoch.number)
            if not self._read_on(epoch):
                raise Refused(f"the task has finished without epoch {epoch.number}", reason="TASK_FINISHED")

    def _read_on(self, epoch: Epoch) -> bool:
        """Read until there is more of the epoch, or its end; False when the task has finished. What was read stays if
        this raises.
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
                    raise TimeoutError(f"epoch {self._position.epoch} did not come in time")
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
        """Read on from the position into the partial epoch."""
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
        """What to acknowledge with the next call: what the user is done with."""
        done = self._position if self._eager else self._done
        return done if done > self._acknowledged else None

    def _give_back(self) -> None:
        """Acknowledge by itself what the next call would: a file that it needs may want the room."""
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
        """An epoch's reader has come to `cursor`, and is done with what lies before `done`, which the next call says
        unless it is said `now`.
        """
        self._cursor = max(cursor, self._cursor)
        self._done = max(done, self._done)
        if now and self._done > self._acknowledged:
            self._service.acknowledge(self.id, self._done)
            self._acknowledged = self._done

    # The task itself

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Those taken of it, by their epochs."""
        return self._service.list_checkpoints(self.id)

    def info(self) -> TaskInfo:
        """What the service knows of the task now."""
        return self._service.get_task(self.id)

    def statistics(self) -> Statistics:
        """The task's counters; times are in microseconds."""
        return self.info().statistics

    def cancel(self) -> None:
        """End the task; every waiter is told."""
        self._service.cancel_task(self.id)

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
    """How other processes reach a service; None where it is in this one, which needs no gRPC."""
    if service.address is None:
        return None
    from .transport.remote import RemoteService

    return service.access if isinstance(service, RemoteService) else None
