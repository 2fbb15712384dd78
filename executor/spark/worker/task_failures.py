"""Errors on their way from a Spark task to the service.

An error in the plan's data does not fail the Spark task, because Spark would try the task again, with the same error.
The error travels as a value, is raised where the rows that it ends are read, and arrives as the original error.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
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
_APPLICATION_LOST: Final = "SPARK_ENDED"

_TELLING: Final = re.compile(r"Error|Exception|(?i:failed)")
_CODE_OF_A_TRACEBACK: Final = re.compile(r'raise |File "|\^|<_\w+ of RPC')
_WRONG_INTERPRETER: Final = re.compile(
    r"Cannot run program|pyspark\.daemon's stdout|PYTHON_VERSION_MISMATCH"
    r"|No module named '(?:tidegate|pyspark|pyarrow|duckdb|numpy|py4j)\b"
)
_MISSING_MODULE: Final = re.compile(r"No module named ('[^']+')")


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


def of_job(error: Exception, what: str, *, ended: bool = False) -> ExecutionError:
    """The error for a job that Spark gave up, or whose application has `ended`. Spark's full message, which is long, is
    in the log.
    """
    _log.error("%s failed", what, exc_info=error)
    if ended:
        return ExecutionError(
            f"{what} failed, because the Spark application has ended or cannot be reached ({_sentence(error)}): "
            "recover the task if it is durable, else make it again; the service starts another application at its "
            "master, or connects to its server anew",
            reason=_APPLICATION_LOST,
        )
    return ExecutionError(
        f"{what} failed: {_sentence(error)}{_way_out(str(error))}; the service's log has the whole message",
        reason=_STAGE_LOST,
    )


def of_server(error: Exception, host: str) -> ExecutionError:
    """The error for a server of Spark Connect that does not answer. A durable task does not fail for good of it."""
    _log.error("the Spark Connect server at %s does not answer", host, exc_info=error)
    return ExecutionError(
        f"the Spark Connect server at {host} does not answer ({_sentence(error)}): start it; then recover the task if "
        "it is durable, else make it again",
        reason=_APPLICATION_LOST,
    )


def _sentence(error: Exception) -> str:
    """The line of Spark's message that says what happened, without the stack of the JVM and the code in tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line) and not _CODE_OF_A_TRACEBACK.match(line)]
    chosen = next(iter(telling or lines), type(error).__name__)
    return chosen[:300].strip(":. ")


def _way_out(message: str) -> str:
    """What would be right, if the workers' interpreter or their modules are at fault; else nothing."""
    if _WRONG_INTERPRETER.search(message):
        version = ".".join(map(str, sys.version_info[:2]))
        return (
            f". Spark's workers need an interpreter of Python {version} that has tidegate[spark] of this version, as "
            f"{sys.executable} has: name it by PYSPARK_PYTHON or spark.pyspark.python before Spark starts"
        )
    if missing := _MISSING_MODULE.search(message):
        return (
            f". Spark's workers do not find the module {missing[1]}, which your code is in or needs: install it where "
            "their interpreter finds it, or send it by spark.submit.pyFiles"
        )
    return ""
