"""The service as an interface: what a client may ask, whoever answers.

Two implementations: the executor's (in this process) and the client's gRPC channel. Both raise the errors of
`proto.errors` with the same reasons, so a test written against one holds for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .errors import Problem
from .graph import GraphService
from .values import (
    Added,
    Capabilities,
    Checkpoint,
    Committed,
    Cursor,
    Explanation,
    FileSplit,
    FoundFile,
    Frame,
    PlanBytes,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)


class Service(Protocol):
    """All calls are thread-safe. Those that name a task raise `NotFound` when there is none of that id."""

    @property
    def address(self) -> str | None:
        """HOST:PORT of the server; None where the service is in the caller's process."""
        ...

    @property
    def graphs(self) -> GraphService:
        """What it does with graphs of the caller's own operators; `Refused` where it is not in the caller's process."""
        ...

    @property
    def principal(self) -> str:
        """Who the service takes its caller for; empty where it does not tell callers apart."""
        ...

    def adopt_spark(self, session: object) -> str:
        """What a Spark session of the caller's is called in options; `InvalidRequest` where the service is a server."""
        ...

    def create_task(
        self, plan: PlanBytes, options: TaskOptions, tables: Mapping[str, Sequence[Split]], *, restore: str = ""
    ) -> TaskInfo:
        """With the id of a checkpoint to `restore`, a task that goes on behind its barrier."""
        ...

    def add_splits(
        self,
        task: str,
        splits: Iterable[tuple[str, Split, int | None]],
        *,
        epoch: int | None = None,
        barrier: bool = False,
        through: Mapping[str, int] | None = None,
        checkpoint: str | None = None,
    ) -> tuple[list[Added], int | None]:
        """Add (source, split, sequence) in order; with `barrier`, seal them and return the epoch's number too.

        `checkpoint` as in `request_barrier`.
        """
        ...

    def transact(
        self,
        task: str,
        transaction: Transaction,
        splits: Iterable[tuple[str, Split]],
        *,
        epoch: int | None = None,
        barrier: bool = False,
        checkpoint: str | None = None,
    ) -> Transacted:
        """Add all of (source, split) to the open epoch, and with `barrier` seal it; once, however often it is said."""
        ...

    def find_files(self, task: str, source: str, split: FileSplit) -> Sequence[FoundFile]:
        """The files that a split would be of, in their order; refused as adding it would be, and nothing is added."""
        ...

    def last_transaction(self, task: str, application: str) -> Committed | None:
        """As far as the task remembers the application."""
        ...

    def run_epoch(
        self,
        task: str,
        splits: Iterable[tuple[str, Split, int | None]],
        cursor: Cursor,
        *,
        epoch: int,
        through: Mapping[str, int] | None = None,
        acknowledge: Cursor | None = None,
        checkpoint: str | None = None,
    ) -> Sequence[Frame]:
        """Add splits, seal them as `epoch` and read from `cursor`: what is there of a short epoch, else BLOCKED."""
        ...

    def upload(self, task: str, name: str, chunks: Iterable[bytes], *, group: str = "") -> str:
        """Keep a client's file for as long as the task; the path returned can be used in splits. One of a `group`, a
        name of the caller's own, goes once the epoch of a split that names it is acknowledged; and where no split names
        it, an hour after the last upload of its group.

        Without a task (the empty string) the file is for a table of the next one created with its path.
        """
        ...

    def drop_uploads(self, task: str, group: str) -> None:
        """Remove the uploads of a group that no split has named."""
        ...

    def no_more_splits(
        self, task: str, source: str | None = None, through: Mapping[str, int] | None = None
    ) -> None: ...

    def request_barrier(
        self,
        task: str,
        epoch: int | None = None,
        through: Mapping[str, int] | None = None,
        checkpoint: str | None = None,
    ) -> int:
        """With the name of a `checkpoint` (the service names it where that is empty) the BARRIER has its id."""
        ...

    def list_checkpoints(self, task: str) -> Sequence[Checkpoint]:
        """Of a task, which need not be there any more; by their epochs."""
        ...

    def next(
        self,
        task: str,
        cursor: Cursor,
        *,
        acknowledge: Cursor | None = None,
        max_bytes: int | None = None,
        wait: float = 0.0,
    ) -> Sequence[Frame]:
        """Frames from `cursor` on, never none; waits up to `wait` seconds for something other than BLOCKED."""
        ...

    def acknowledge(self, task: str, cursor: Cursor) -> None: ...

    def get_task(self, task: str) -> TaskInfo: ...

    def list_tasks(self) -> Sequence[TaskInfo]: ...

    def cancel_task(self, task: str) -> None: ...

    def delete_task(self, task: str) -> None: ...

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        """Every problem that a task with these options would have, and the warnings."""
        ...

    def explain(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        static_sources: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Explanation:
        """As the plan would run over sources of so many rows, where that changes anything."""
        ...

    def capabilities(self) -> Capabilities: ...

    def close(self) -> None: ...
