"""Errors on their way from a Spark task to the service.

An error in the plan's data does not fail the Spark task, because Spark would try the task again, with the same error.
The error travels as a value, is raised where the rows that it ends are read, and arrives as the original error.
"""

from __future__ import annotations

import base64
import json
import logging
from contextlib import suppress
from typing import Any, Final

from ....proto import errors
from ....proto.errors import ExecutionError, InternalError, NodeError, TidegateError
from .stage import packed, unpacked

_log = logging.getLogger(__name__)

_CLASSES: Final = {
    class_.__name__: class_
    for class_ in vars(errors).values()
    if isinstance(class_, type)
    and issubclass(class_, TidegateError)
    and class_ not in (errors.PlanError, errors.EpochError)
}
_NODE: Final = NodeError.__name__
_STAGE_LOST: Final = "SPARK_FAILED"


def written(error: Exception) -> bytes:
    """An error as a value. An error that is not Tidegate's is a bug, and is logged in the process where it happened."""
    match error:
        case NodeError():
            fields = {"what": error.what, "node": error.node, "channel": error.channel, "cause": _carried(error)}
        case TidegateError():
            fields = {"message": error.message}
        case _:
            _log.error("a bug in Tidegate: a channel failed", exc_info=error)
            error = InternalError(
                f"a bug in Tidegate ended the epoch ({type(error).__name__}); the log has the traceback"
            )
            fields = {"message": error.message}
    name = type(error).__name__ if type(error).__name__ in _CLASSES else ExecutionError.__name__
    sources = error.sources or ()  # an operator of this channel has failed, and no other one
    return json.dumps({"class": name, "reason": error.reason, "sources": sources, **fields}).encode()


def read(payload: bytes) -> TidegateError:
    fields = json.loads(payload)
    error: TidegateError
    if fields["class"] == _NODE:
        error = NodeError(fields["what"], node=fields["node"], channel=fields["channel"], reason=fields["reason"])
        error.__cause__ = _received(fields["cause"])
    else:
        error = _CLASSES[fields["class"]](fields["message"], reason=fields["reason"])
    error.sources = tuple(fields["sources"])
    return error


def _carried(error: NodeError) -> str:
    """The exception of user code, if it can travel. Its traceback is in the message."""
    with suppress(Exception):
        return base64.b64encode(packed(error.__cause__)).decode()
    return ""


def _received(cause: str) -> BaseException | None:
    """The exception; None if only the process that raised it has its class."""
    exception: Any = None
    with suppress(Exception):
        exception = unpacked(base64.b64decode(cause)) if cause else None
    return exception if isinstance(exception, BaseException) else None


def of_job(error: Exception, what: str) -> ExecutionError:
    """The error for a job that Spark gave up. Spark's full message, which is long, is in the log."""
    _log.error("%s failed", what, exc_info=error)
    return ExecutionError(
        f"{what} failed: {_sentence(error)}; the service's log has the whole message", reason=_STAGE_LOST
    )


def _sentence(error: Exception) -> str:
    """The line of Spark's message that says what happened, without the stack of the JVM."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line or "failed" in line.casefold()]
    chosen = next(iter(telling or lines), type(error).__name__)
    return chosen[:300].rstrip(". ")
