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
    """One thing wrong with a plan: its plan path, a machine-readable reason, a sentence."""

    place: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{_short(self.place)}: {self.message}" if self.place else self.message


def _short(place: str) -> str:
    """A plan path for a sentence: both ends of a path that is thousands of levels deep."""
    if len(place) <= LONGEST_PLACE:
        return place
    half = LONGEST_PLACE // 2
    return f"{place[:half]}...{place[-half:]}"


class TidegateError(Exception):
    """The base of all errors that a user of Tidegate can meet."""

    default_reason: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason

    def __str__(self) -> str:
        return self.message


class PlanError(TidegateError):
    """A plan that cannot be run; `problems` lists everything found, each with its place in the plan."""

    default_reason = "INVALID_PLAN"

    def __init__(self, *problems: Problem) -> None:
        if not problems:
            raise ValueError("a PlanError needs at least one problem")
        self.problems = problems
        text = (
            str(problems[0]) if len(problems) == 1 else f"{len(problems)} problems:\n" + "\n".join(map(str, problems))
        )
        super().__init__(text, reason=problems[0].reason)

    def at(self, place: str) -> PlanError:
        """The same problems; a problem without a place gets this one."""
        return PlanError(*(problem if problem.place else replace(problem, place=place) for problem in self.problems))


class RequestError(TidegateError):
    """A call was refused; nothing changed."""


class InvalidRequest(RequestError):
    default_reason = "INVALID_REQUEST"


class NotFound(RequestError):
    default_reason = "NOT_FOUND"


class Refused(RequestError):
    default_reason = "REFUSED"


class OutOfRange(RequestError):
    default_reason = "CURSOR_OUT_OF_RANGE"


class Exhausted(RequestError):
    default_reason = "LIMIT_REACHED"


class Forbidden(RequestError):
    default_reason = "OUTSIDE_ROOTS"


class Unauthenticated(RequestError):
    default_reason = "TOKEN_UNKNOWN"


class SplitError(TidegateError):
    """A split cannot be read; the message names the file (or inline split) and the source."""

    default_reason = "SPLIT_UNREADABLE"


class CheckpointError(TidegateError):
    """A checkpoint cannot be written, or cannot be restored. The message names the checkpoint, what is wrong and what
    would be right.
    """

    default_reason = "CHECKPOINT_FAILED"


class ExecutionError(TidegateError):
    """The plan met data that it cannot process. The message names the place in the plan where it is known."""

    default_reason = "EXECUTION_FAILED"


class NodeError(ExecutionError):
    """User code in a node of a graph raised, or returned something it must not. `__cause__` is the exception that the
    code raised; its traceback is in the message. A `NodeError` travels as an `ExecutionError`.
    """

    default_reason = "NODE_FAILED"

    def __init__(
        self, what: str, *, node: str, channel: int | None = None, epoch: int | None = None, reason: str | None = None
    ) -> None:
        self.what = what
        self.node = node
        self.channel = channel
        self.epoch = epoch
        places = [f"node {node!r}"]
        places += [] if channel is None else [f"channel {channel}"]
        places += [] if epoch is None else [f"epoch {epoch}"]
        super().__init__(f"{', '.join(places)}: {what}", reason=reason)

    def in_epoch(self, epoch: int) -> NodeError:
        """The same error, with the number of the epoch in which the code failed."""
        made = NodeError(self.what, node=self.node, channel=self.channel, epoch=epoch, reason=self.reason)
        made.__cause__ = self.__cause__
        return made


class EpochError(TidegateError):
    """One epoch failed. `epoch` is its number; the message is the cause's."""

    default_reason = "EPOCH_FAILED"

    def __init__(self, message: str, *, epoch: int, reason: str | None = None) -> None:
        super().__init__(message, reason=reason)
        self.epoch = epoch


class TaskFailed(TidegateError):
    default_reason = "TASK_FAILED"


class TaskCancelled(TidegateError):
    default_reason = "TASK_CANCELLED"


class Unavailable(TidegateError):
    default_reason = "UNAVAILABLE"


class InternalError(TidegateError):
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
