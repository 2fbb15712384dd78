"""The service as an interface: the calls that a client may make.

There are two implementations: the executor's (in this process) and the client's gRPC channel. Both raise the errors of
`proto.errors` with the same reasons, so a test of one holds for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .errors import Problem
from .graph import GraphService
from .spark_frames import FrameFeeds
from .values import (
    NO_WISHES,
    Added,
    AddRequest,
    Capabilities,
    Checkpoint,
    Committed,
    Cursor,
    Explanation,
    FileSplit,
    FoundFile,
    Frame,
    PlanBytes,
    Reader,
    Seal,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)


class Service(Protocol):
    """The task service. All calls are thread-safe. Calls that name a task raise `NotFound` when no task has that id."""

    @property
    def address(self) -> str | None:
        """HOST:PORT of the server; None where the service is in the caller's process."""
        ...

    @property
    def graphs(self) -> GraphService:
        """The service's calls on graphs of your own operators. Raises `Refused` where the service is not in the
        caller's process.
        """
        ...

    @property
    def principal(self) -> str:
        """The name by which the service knows its caller; empty where it does not tell callers apart."""
        ...

    def adopt_spark(self, session: object) -> str:
        """Take a Spark session of the caller and return its name for task options. Raises `InvalidRequest` where the
        service is a server.
        """
        ...

    def over_frames(self, plan: PlanBytes, options: TaskOptions, feeds: FrameFeeds) -> object:
        """The plan over DataFrames of the caller's Spark session as a DataFrame. Raises `InvalidRequest` where the
        service is a server.
        """
        ...

    def create_task(
        self, plan: PlanBytes, options: TaskOptions, tables: Mapping[str, Sequence[Split]], *, restore: str = ""
    ) -> TaskInfo:
        """Create a task. With the id of a checkpoint to `restore`, the task goes on after the checkpoint's barrier."""
        ...

    def add_splits(self, task: str, request: AddRequest) -> tuple[list[Added], int | None]:
        """Adds the splits in order, seals them where the request says so, and returns the sealed epoch's number too."""
        ...

    def transact(self, task: str, transaction: Transaction, request: AddRequest) -> Transacted:
        """Add all of (source, split) to the open epoch, and with `barrier` seal it. A repeated call changes nothing."""
        ...

    def find_files(self, task: str, source: str, split: FileSplit, *, pieces: bool = False) -> Sequence[FoundFile]:
        """The files that a split stands for, in order; with `pieces`, also the parts of each that are read as a whole.

        The call is refused where adding the split would be, and adds nothing.
        """
        ...

    def last_transaction(self, task: str, application: str) -> Committed | None:
        """The application's last transaction; None where the task does not remember the application."""
        ...

    def run_epoch(
        self, task: str, request: AddRequest, cursor: Cursor, *, acknowledge: Cursor | None = None
    ) -> Sequence[Frame]:
        """Add splits, seal them as `epoch` and read from `cursor`: the frames of a short epoch that are ready, else
        BLOCKED.
        """
        ...

    def upload(self, task: str, name: str, chunks: Iterable[bytes], *, group: str = "") -> str:
        """Keep a client's file for as long as the task lives; splits can name the path that is returned. `group` is a
        name that the caller chooses. A file of a group is removed once the epoch of a split that names it is
        acknowledged; a file that no split names, an hour after the last upload of its group.

        Without a task (the empty string) the file is for a table of the next task that is created with its path.
        """
        ...

    def drop_uploads(self, task: str, group: str) -> None:
        """Remove the uploads of a group that no split has named."""
        ...

    def no_more_splits(
        self, task: str, source: str | None = None, through: Mapping[str, int] | None = None
    ) -> None: ...

    def request_barrier(self, task: str, epoch: int | None = None, seal: Seal = NO_WISHES) -> int:
        """Seal the open epoch and return its number; or join a sealed one, as `Seal.after` says. With a `checkpoint`
        (its name; the service chooses one where the name is empty) the BARRIER carries the checkpoint's id.
        """
        ...

    def list_checkpoints(self, task: str) -> Sequence[Checkpoint]:
        """The checkpoints of a task, ordered by epoch. The task need not exist any more."""
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
        """Frames from `cursor` on, at least one. The call waits up to `wait` seconds for a frame other than BLOCKED."""
        ...

    def acknowledge(self, task: str, cursor: Cursor) -> None: ...

    def get_task(self, task: str) -> TaskInfo: ...

    def list_tasks(self) -> Sequence[TaskInfo]: ...

    def cancel_task(self, task: str) -> None: ...

    def recover_task(self, task: str, skip: Sequence[tuple[str, int]] = (), request: str = "") -> TaskInfo:
        """Have a durable task that has failed go on, without the splits in `skip`: (source, number). Another call with
        the same unguessable `request` changes nothing.
        """
        ...

    def delete_task(self, task: str, reader: Reader | None = None) -> None:
        """Delete a task. For one of several readers: once all of them have asked."""
        ...

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        """Every problem that a task with this plan and these options would have, and the warnings."""
        ...

    def explain(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        static_sources: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Explanation:
        """Explain how the plan would run. `rows` is how many rows each source has, which may change how it runs."""
        ...

    def capabilities(self) -> Capabilities: ...

    def close(self) -> None: ...
