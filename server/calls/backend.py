"""The interface between the endpoints and the executor: the service, and a way to wait for results without a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...proto.service import Service
from ...proto.values import (
    Added,
    AddRequest,
    Cursor,
    Frame,
    PlanBytes,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)


class Reception(Protocol):
    """A file that a client is sending.

    `keep` gives its path once it is finished; `drop` removes it unless it is kept.
    """

    def write(self, chunk: bytes) -> None: ...

    def finish(self) -> None: ...

    def keep(self) -> str: ...

    def drop(self) -> None: ...


class Backend(Service, Protocol):
    """The service as a server needs it: no call that waits holds a thread."""

    def create_task(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        *,
        restore: str = "",
        request: str = "",
    ) -> TaskInfo:
        """Make a task. A repeated `request`, named by the client, is answered with the task that it made before."""
        ...

    def add_splits(self, task: str, request: AddRequest, *, wake: bool = True) -> tuple[list[Added], int | None]:
        """Add splits. Without `wake` the caller calls `work_and_poll` at once, which saves finding a thread for it."""
        ...

    def transact(self, task: str, transaction: Transaction, request: AddRequest, *, wake: bool = True) -> Transacted:
        """Add splits and a seal as one transaction. `wake` as in `add_splits`."""
        ...

    def check_read(self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None) -> None:
        """Raise what `poll` would raise of the cursors. Blocks while the task is brought back."""
        ...

    def poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """The frames that there are now, as `next` without waiting. Never blocks."""
        ...

    def work_and_poll(
        self, task: str, cursor: Cursor, *, acknowledge: Cursor | None = None, max_bytes: int | None = None
    ) -> Sequence[Frame]:
        """Run the task's work on the calling thread, if it is short and no other thread has it; then `poll`."""
        ...

    def subscribe(self, task: str, cursor: Cursor, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever a poll at the cursor may have a new answer, from any thread. The callback must not
        block.

        Returns a function that ends the subscription.
        """
        ...

    def begin_upload(self, task: str, name: str, *, group: str = "") -> Reception:
        """Begin an upload whose chunks come one at a time, so that no thread waits for the client."""
        ...

    def stop(self) -> None:
        """Cancel every task and take no more. Waiting callers learn that the service ends. Does not wait."""
        ...
