"""A service's log of events in its tasks' lives: one line per event, in a form that is easy to search.

A line is `event=NAME`, then `name=value` pairs; the task's id and its principal come first. A value that is not a plain
word is written as a JSON string in ASCII, so user text cannot begin a line, end a value, or look like another field.
The log leaves out what may hold a secret: plans, tokens, and the user information and queries of URLs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...proto.errors import PlanError, TidegateError

log = logging.getLogger("tidegate.events")

LONGEST: Final = 300
"""The most characters of a sentence in the log."""

_WORD: Final = re.compile(r"[\w.:/@+-]+", re.ASCII)
_USER: Final = re.compile(r"(?<=://)[^/\s@'\"]+@")
_QUERY: Final = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")

Value = str | int | None


def tell(event: str, fields: Mapping[str, Value], level: int = logging.INFO) -> None:
    """Log an event. Fields that are None or empty are left out."""
    if log.isEnabledFor(level):
        said = [f"{name}={_value(str(value))}" for name, value in fields.items() if value not in (None, "")]
        log.log(level, "%s", " ".join([f"event={event}", *said]))


def refused(principal: str, error: TidegateError) -> None:
    """Log that a server refused to make a task."""
    if isinstance(error, PlanError):
        tell("plan_refused", {"principal": principal, "problems": len(error.problems), **_why(error)})
    else:
        tell("task_refused", {"principal": principal, **_why(error)})


def spill_failed(task: str, principal: str, call: str, error: TidegateError) -> None:
    """Log that a call was refused because the disk of the spill folder is full or fails."""
    tell("spill_failed", {"task": task, "principal": principal, "call": call, **_why(error)}, logging.WARNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvents:
    """Logs the events of one task."""

    task: str
    principal: str = ""

    def tell(self, event: str, level: int = logging.INFO, *, error: TidegateError | None = None, **more: Value) -> None:
        """Log an event of the task, with the reason and the message of `error` if there is one."""
        why = {} if error is None else _why(error)
        tell(event, {"task": self.task, "principal": self.principal, **more, **why}, level)


def _why(error: TidegateError) -> dict[str, Value]:
    first = error.message.partition("\n")[0]
    return {"reason": error.reason, "message": without_secrets(first)[:LONGEST]}


def without_secrets(text: str) -> str:
    """The sentence without the parts of URLs that may be credentials."""
    return _QUERY.sub(r"\1?...", _USER.sub("...@", text))


def _value(text: str) -> str:
    return text if _WORD.fullmatch(text) else json.dumps(text)
