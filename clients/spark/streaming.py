"""`stream`: the micro-batches of a Structured Streaming query become transactions of a task, and epochs if it seals.

The executors stage or push a batch. One call then adds, seals and remembers it, as version *batch id* of an
application. After a crash Spark runs its last batch again, under the same id: if the task has it, nothing is computed
and nothing changes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from ..client import Client
from ..proto.errors import InvalidRequest, NotFound, Refused
from ..proto.values import FileSplit, MissingColumns, Transacted
from ..task import Task
from ..transport.access import Access, access
from ..transport.feeder import checkpoint_name
from ..transport.remote import RemoteService
from .data_frames import data_frame, is_classic
from .feed_frames import prepared, settled
from .streamed_batches import batch_before, repeated
from .wait_for_readers import checkpointed, once_read

WAIT_SECONDS: Final = 300.0
_QUERY: Final = "sql.streaming.queryId"
_ATTEMPTS: Final = 3


def stream(
    frame: DataFrame,
    task: Task | tuple[str, str],
    source: str,
    *,
    seals: bool = True,
    change_column: str | None = None,
    missing_columns: MissingColumns | Literal["error", "null"] | None = None,
    staging: str | os.PathLike[str] | None = None,
    application: str | None = None,
    checkpoint: bool | str = False,
    gaps: bool = False,
    wait: float = WAIT_SECONDS,
) -> DataStreamWriter:
    """Feed a source of a task with a streaming DataFrame.

    >>> days = session.readStream.schema("item string, amount bigint").parquet(f"{folder}/*day.parquet")
    >>> writer = tidegate.spark.stream(days, task, "sales", seals=True).trigger(availableNow=True)
    >>> writer.option("checkpointLocation", f"{folder}/checkpoints").start().awaitTermination()
    >>> task.read_epoch().to_pylist()
    [{'item': 'cup', 'total': 17}, {'item': 'tea', 'total': 7}]

    Each batch is a transaction, and with `seals` an epoch. If several queries feed one task, one of them seals, and the
    batches of the others belong to the epoch that it seals next.

    - `task`: a task, or its (address, id), with which a driver that is started again goes on. Over Spark Connect, the
      task is one of a server, which Spark's server reaches by its address.
    - `application`: the name under which the task remembers the query. Without it, the query's own id, which its
      checkpoint location keeps. Over Spark Connect it is needed.
    - `gaps`: True allows a batch that leaves out some since the last that the task has. Without it such a batch is
      refused.
    - `staging`: as in `feed`. Without it batches are pushed if the service is a server.
    - `change_column`, `missing_columns`: as in `feed`.
    - `checkpoint`: True or a name. A batch is then done once a checkpoint of the task has it, so that the query is
      never ahead of what the task can be restored to. A query that does not seal waits for one that does.
    - `wait`: the seconds that a batch waits at most until a client has read.
    """
    if not data_frame(frame, "the data to stream").isStreaming:
        raise InvalidRequest(
            "stream() takes a streaming DataFrame (spark.readStream); feed() takes the others", reason="NOT_STREAMING"
        )
    wanted = checkpoint_name(checkpoint)
    classic = is_classic(frame.sparkSession)
    if application is None and not classic:
        raise InvalidRequest(_NAMELESS, reason="APPLICATION_MISSING")
    batches = Batches(
        fed=task if classic and isinstance(task, Task) else _reached(task),
        source=source,
        seals=seals,
        application=application,
        checkpoint=wanted,
        gaps=gaps,
        wait=wait,
        staging=None if staging is None else os.fspath(staging),
        change_column=change_column,
        missing_columns=missing_columns,
    )
    return frame.writeStream.foreachBatch(batches)


@dataclass(frozen=True)
class Reached:
    """A task of a server, for a process that has no `Task` of it. A token given as text does not travel."""

    access: Access
    task: str


def _reached(task: Task | tuple[str, str]) -> Reached:
    if isinstance(task, tuple):
        address, identity = task
        return Reached(access(address), identity)
    if task.access is None:
        raise Refused(
            "over Spark Connect, batches are fed from Spark's server, which does not reach a service inside this "
            "process: use tidegate.connect",
            reason="NOT_REACHABLE",
        )
    return Reached(task.access, task.id)


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The function for `foreachBatch`. One whose task is named by its server and id can be shipped."""

    fed: Task | Reached
    source: str
    seals: bool
    application: str | None
    checkpoint: str | None
    gaps: bool
    wait: float
    staging: str | None
    change_column: str | None
    missing_columns: MissingColumns | Literal["error", "null"] | None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if isinstance(self.fed, Task):
            self._feed(self.fed, frame, batch)
            return
        with Client(RemoteService(self.fed.access)) as client:
            self._feed(client.task(self.fed.task), frame, batch)

    def _feed(self, task: Task, frame: DataFrame, batch: int) -> None:
        application = self.application or _query(frame)
        before = repeated(task.last_transaction(application), task.id, application, batch)
        if before is not None:
            done = Transacted(epoch=before.epoch, replayed=True)
            settled(frame, task, self._name(task, application, batch), done.epoch, staging=self.staging)
        else:
            done = self._added_again(frame, task, application, batch)
        if self.checkpoint is not None and done.epoch is not None:
            checkpointed(task, done.epoch, self.wait, restored=done.replayed)

    def _added_again(self, frame: DataFrame, task: Task, application: str, batch: int) -> Transacted:
        """Add the batch. Rows that executors have uploaded are lost if the service restarts before the transaction that
        names them: the executors then upload them again.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._added(frame, task, application, batch)
            except NotFound as lost:
                if lost.reason != "UPLOAD_GONE":
                    raise
        return self._added(frame, task, application, batch)

    def _added(self, frame: DataFrame, task: Task, application: str, batch: int) -> Transacted:
        name = self._name(task, application, batch)
        done: Transacted | None = None
        try:
            splits = prepared(
                frame,
                task,
                self.source,
                name,
                staging=self.staging,
                change_column=self.change_column,
                missing_columns=self.missing_columns,
            )
            done = once_read(partial(self._transact, task, application, batch, splits), self.wait)
        finally:
            settled(frame, task, name, None if done is None else done.epoch, staging=self.staging)
        return done

    def _name(self, task: Task, application: str, batch: int) -> str:
        """The name of a batch's prepared rows: the same whenever the batch is run again."""
        return hashlib.sha256(repr((task.id, self.source, application, batch)).encode()).hexdigest()[:32]

    def _transact(self, task: Task, application: str, batch: int, splits: Sequence[FileSplit]) -> Transacted:
        return task.transact(
            application,
            batch,
            {self.source: splits},
            seal=self.seals,
            follows=batch_before(batch, gaps=self.gaps),
            checkpoint=(self.checkpoint or True) if self.seals and self.checkpoint is not None else False,
        )


def _query(frame: DataFrame) -> str:
    """The id of the running query, if it can be seen."""
    try:
        query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
    except Exception as unseen:
        raise InvalidRequest(_NAMELESS, reason="APPLICATION_MISSING") from unseen
    if not query:
        raise InvalidRequest(_NAMELESS, reason="APPLICATION_MISSING")
    return f"spark-query-{query}"


_NAMELESS: Final = (
    "the id of the streaming query is not known here (over Spark Connect, for example): name the query with "
    "application=..., and keep the name for as long as the query keeps its checkpoint location"
)
