"""The errors Tidegate raises, on both sides of the wire.

::

    TidegateError                 everything below; never raised itself
    ├── PlanError                 the plan is wrong: every problem found, each with its place in the plan
    ├── RequestError              a call was refused; nothing changed
    │   ├── InvalidRequest        the call can never succeed as it is
    │   ├── NotFound              what the call names does not exist
    │   ├── Refused               the task's state forbids it (now, or for good: see the reason)
    │   ├── OutOfRange            a cursor outside what can be read
    │   ├── Exhausted             a limit is reached
    │   ├── Forbidden             outside the roots, or more than the server's owner allows
    │   └── Unauthenticated       the server does not know who calls: no token, or none that it has
    ├── SplitError                a split cannot be read: missing, changed, corrupt, wrong columns
    ├── CheckpointError           a checkpoint that cannot be written, or gone on from: damaged, another plan's
    ├── ExecutionError            the data made the plan fail: overflow, bad cast, a declared order broken
    │   └── NodeError             the user's own code in a node of a graph failed; carries node, channel and epoch
    ├── EpochError                one epoch of a task failed; carries the epoch and the cause
    ├── TaskFailed                the task has ended with an error
    ├── TaskCancelled             the task was cancelled
    ├── Unavailable               the server cannot be reached (kept after the client's own retries)
    └── InternalError             a bug in Tidegate; the server's log has the traceback

Every error has a machine-readable `reason` (upper snake case) and a sentence that names what is wrong, where,
and what would be right. `STATUS` maps each class to the gRPC status it travels as, in one place.

A message begins with the place, if there is one, and has one of five forms:

- not there: "there is no column 'x'; there are: a, b"
- wrong value: "channels=0 must be a whole number from 1 on"; "a plan must be bytes or str, not int"
- too much: "the request has 9 bytes; at most 8 are allowed: send several requests"
- refused: "epoch 3 is not sealed: call request_barrier() first" (the fact, then the way out)
- failed: "table 't' cannot be written: No space left on device" (the deed, then the cause)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

TRACEBACK: Final = "\nTraceback (most recent call last):"
"""The text at which the traceback of user code begins in a message."""

LONGEST_PLACE: Final = 300
"""The most characters of a plan path in a sentence; `Problem.place` is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a plan: its plan path, a machine-readable reason, a sentence.

    >>> for problem in client.validate(b"no plan"):
    ...     print(problem.reason)
    MALFORMED
    """

    place: str
    reason: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", in_utf8(self.message))

    def __str__(self) -> str:
        return f"{_short(self.place)}: {self.message}" if self.place else self.message


def in_utf8(text: str) -> str:
    """The text with escapes in place of surrogates: texts of user code may have them, and neither a journal nor a
    message takes them.
    """
    return text.encode(errors="backslashreplace").decode()


def _short(plan_path: str) -> str:
    """A plan path for a sentence: both ends of a path that is thousands of levels deep."""
    if len(plan_path) <= LONGEST_PLACE:
        return plan_path
    half = LONGEST_PLACE // 2
    return f"{plan_path[:half]}...{plan_path[-half:]}"


class TidegateError(Exception):
    """The base of all errors that a user of Tidegate can meet.

    >>> try:
    ...     client.task("of yesterday")
    ... except tidegate.TidegateError as error:
    ...     print(type(error).__name__, error.reason)
    NotFound UNKNOWN_TASK
    """

    default_reason: ClassVar[str] = "UNKNOWN"

    sources: tuple[str, ...] | None = None
    """The sources that feed the operator that failed; None where no operator is known to have failed."""

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        self.message = in_utf8(message)
        super().__init__(self.message)
        self.reason = reason or self.default_reason

    def __str__(self) -> str:
        return self.message


class PlanError(TidegateError):
    """A plan that cannot be run; `problems` lists everything found, each with its place in the plan.

    >>> try:
    ...     client.create_task(b"no plan")
    ... except tidegate.PlanError as error:
    ...     print(len(error.problems), error.reason)
    1 MALFORMED
    """

    default_reason = "INVALID_PLAN"

    def __init__(self, *problems: Problem) -> None:
        if not problems:
            raise ValueError("a PlanError needs at least one problem")
        self.problems = problems
        text = (
            str(problems[0]) if len(problems) == 1 else f"{len(problems)} problems:\n" + "\n".join(map(str, problems))
        )
        super().__init__(text, reason=problems[0].reason)

    def at(self, plan_path: str) -> PlanError:
        """The same problems; a problem without a place gets this one."""
        return PlanError(
            *(problem if problem.place else replace(problem, place=plan_path) for problem in self.problems)
        )


class RequestError(TidegateError):
    """A call was refused; nothing changed.

    >>> try:
    ...     client.task("of yesterday")
    ... except tidegate.RequestError as error:
    ...     print(error.reason)
    UNKNOWN_TASK
    """


class InvalidRequest(RequestError):
    """The call can never succeed as it is.

    >>> try:
    ...     client.create_task(plan, determinism="strikt")
    ... except tidegate.InvalidRequest as error:
    ...     print(error.reason)
    UNKNOWN_OPTION
    """

    default_reason = "INVALID_REQUEST"


class NotFound(RequestError):
    """The task, checkpoint or other thing that the call names does not exist.

    >>> try:
    ...     client.task("of yesterday")
    ... except tidegate.NotFound as error:
    ...     print(error.reason)
    UNKNOWN_TASK
    """

    default_reason = "NOT_FOUND"


class Refused(RequestError):
    """The state of the task forbids the call, for now or for good. The reason says which.

    >>> try:
    ...     task.read_epoch()
    ... except tidegate.Refused as error:
    ...     print(error.reason)
    NOTHING_SEALED
    """

    default_reason = "REFUSED"


class OutOfRange(RequestError):
    """A cursor outside of the rows that can be read.

    >>> _ = task.run_epoch({"sales": monday})
    >>> try:
    ...     task.next(tidegate.Cursor(1, 9))
    ... except tidegate.OutOfRange as error:
    ...     print(error.reason)
    CURSOR_OUT_OF_RANGE
    """

    default_reason = "CURSOR_OUT_OF_RANGE"


class Exhausted(RequestError):
    """A limit of the task or of the server is reached. The same call may succeed later, unless it alone is too large.

    >>> task = client.create_task(plan, spill_quota=1)
    >>> try:
    ...     task.add_split("sales", tidegate.upload("sales.parquet"))
    ... except tidegate.Exhausted as error:
    ...     print(error.reason)
    UPLOAD_TOO_LARGE
    """

    default_reason = "LIMIT_REACHED"


class Forbidden(RequestError):
    """The call asks for a file outside of the roots, or for more than the owner of the server allows.

    >>> client = tidegate.local(roots=["."])
    >>> try:
    ...     client.query(plan, {"sales": "/etc/hosts"})
    ... except tidegate.Forbidden as error:
    ...     print(error.reason)
    OUTSIDE_ROOTS
    """

    default_reason = "OUTSIDE_ROOTS"


class Unauthenticated(RequestError):
    """The server does not know the caller: the call has no token, or none that the server knows.

    >>> client = tidegate.connect(guarded, token="unknown")
    >>> try:
    ...     client.tasks()
    ... except tidegate.Unauthenticated as error:
    ...     print(error.reason)
    TOKEN_UNKNOWN
    """

    default_reason = "TOKEN_UNKNOWN"


class SplitError(TidegateError):
    """A split cannot be read; the message names the file (or inline split) and the source.

    >>> size = pathlib.Path("broken.parquet").write_bytes(b"not Parquet")
    >>> try:
    ...     client.create_task(plan, tables={"sales": "broken.parquet"})
    ... except tidegate.SplitError as error:
    ...     print(error.reason)
    FILE_UNREADABLE
    """

    default_reason = "SPLIT_UNREADABLE"


class CheckpointError(TidegateError):
    """A checkpoint cannot be written, or cannot be restored. The message names the checkpoint, what is wrong and what
    would be right.

    >>> client = tidegate.local(checkpoint_root=".")
    >>> epoch = client.create_task(plan).run_epoch({"sales": monday}, checkpoint=True)
    >>> try:
    ...     client.create_task(plan, restore=epoch.checkpoint, channels=2)
    ... except tidegate.CheckpointError as error:
    ...     print(error.reason)
    CHECKPOINT_OTHER_OPTIONS
    """

    default_reason = "CHECKPOINT_FAILED"


class ExecutionError(TidegateError):
    """The plan met data that it cannot process. The message names the place in the plan where it is known. It is the
    cause of the `TaskFailed` that a client in the same process meets; a server sends the reason and the message.

    >>> try:
    ...     client.query(plan, {"sales": monday.set_column(1, "amount", [[2**63 - 1] * 3])})
    ... except tidegate.TaskFailed as error:
    ...     print(error.reason, isinstance(error.__cause__, tidegate.ExecutionError))
    EXECUTION_FAILED True
    """

    default_reason = "EXECUTION_FAILED"


class NodeError(ExecutionError):
    """User code in a node of a graph raised, or returned something it must not. `__cause__` is the exception that the
    code raised; its traceback is in the message. A `NodeError` travels as an `ExecutionError`.

    >>> graph = tidegate.TaskGraph()
    >>> half = graph.read_arrow(monday).map(lambda batch: 1 / 0, schema=monday.schema, name="half")
    >>> result = graph.collect(half)
    >>> try:
    ...     graph.run()
    ... except tidegate.TaskFailed as error:
    ...     print(error.__cause__.node, repr(error.__cause__.__cause__))
    half ZeroDivisionError('division by zero')
    """

    default_reason = "NODE_FAILED"

    def __init__(
        self, what: str, *, node: str, channel: int | None = None, epoch: int | None = None, reason: str | None = None
    ) -> None:
        self.what = what
        self.node = node
        self.channel = channel
        self.epoch = epoch
        where = [f"node {node!r}"]
        where += [] if channel is None else [f"channel {channel}"]
        where += [] if epoch is None else [f"epoch {epoch}"]
        super().__init__(f"{', '.join(where)}: {what}", reason=reason)

    def in_epoch(self, epoch: int) -> NodeError:
        """The same error, with the number of the epoch in which the code failed."""
        node_error = NodeError(self.what, node=self.node, channel=self.channel, epoch=epoch, reason=self.reason)
        node_error.__cause__ = self.__cause__
        return node_error


class TransientError(Exception):
    """Raised by your own code in a node of a graph: what has failed may succeed if it is tried again. Where the task or
    the node has `retries`, the channel is made anew.

    >>> def fetch(batch):
    ...     raise tidegate.TransientError("the service is restarting")
    >>> graph = tidegate.TaskGraph()
    >>> result = graph.collect(graph.read_arrow(monday).map(fetch, schema=monday.schema, name="fetch"))
    >>> try:
    ...     graph.run(retries=2)
    ... except tidegate.TaskFailed as error:
    ...     print(repr(error.__cause__.__cause__))
    TransientError('the service is restarting')
    """


class EpochError(TidegateError):
    """One epoch failed. `epoch` is its number; the message is the cause's.

    >>> task = client.create_task(plan, on_error="skip_epoch")
    >>> try:
    ...     task.run_epoch({"sales": monday.set_column(1, "amount", [[2**63 - 1] * 3])})
    ... except tidegate.EpochError as error:
    ...     print(error.epoch, error.reason)
    1 EXECUTION_FAILED
    """

    default_reason = "EPOCH_FAILED"

    def __init__(self, message: str, *, epoch: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.epoch = epoch


class TaskFailed(TidegateError):
    """The task has ended with an error, which the message repeats.

    >>> try:
    ...     task.run_epoch({"sales": monday.set_column(1, "amount", [[2**63 - 1] * 3])})
    ... except tidegate.TaskFailed as error:
    ...     print(error.reason)
    EXECUTION_FAILED
    """

    default_reason = "TASK_FAILED"


class TaskCancelled(TidegateError):
    """The task was cancelled.

    >>> task.cancel()
    >>> try:
    ...     task.read_epoch()
    ... except tidegate.TaskCancelled as error:
    ...     print(error.reason)
    TASK_CANCELLED
    """

    default_reason = "TASK_CANCELLED"


class Unavailable(TidegateError):
    """The server cannot be reached, or cannot take the call now. The client has tried again where that could help.

    >>> client = tidegate.connect("127.0.0.1:1", reconnect_seconds=0)
    >>> try:
    ...     client.tasks()
    ... except tidegate.Unavailable as error:
    ...     print(error.reason)
    UNAVAILABLE
    """

    default_reason = "UNAVAILABLE"


class InternalError(TidegateError):
    """A bug in Tidegate. The log of the server has the traceback.

    >>> try:
    ...     answer = client.query(plan, {"sales": monday})
    ... except tidegate.InternalError as error:
    ...     print("please report this:", error)
    """

    default_reason = "INTERNAL"


STATUS: Final[dict[type[TidegateError], str]] = {
    PlanError: "INVALID_ARGUMENT",
    InvalidRequest: "INVALID_ARGUMENT",
    NotFound: "NOT_FOUND",
    Refused: "FAILED_PRECONDITION",
    OutOfRange: "OUT_OF_RANGE",
    Exhausted: "RESOURCE_EXHAUSTED",
    Forbidden: "PERMISSION_DENIED",
    Unauthenticated: "UNAUTHENTICATED",
    SplitError: "FAILED_PRECONDITION",
    CheckpointError: "FAILED_PRECONDITION",
    ExecutionError: "FAILED_PRECONDITION",
    EpochError: "ABORTED",
    TaskFailed: "ABORTED",
    TaskCancelled: "CANCELLED",
    Unavailable: "UNAVAILABLE",
    InternalError: "INTERNAL",
}
