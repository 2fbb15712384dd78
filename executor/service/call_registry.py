"""Calls that make something, made once however often they arrive: by a name that the caller chose for the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ...proto.errors import InvalidRequest, Refused

LONGEST = 200


@dataclass(frozen=True, slots=True)
class _Request:
    digest: bytes
    task: Future[str] = field(default_factory=Future)


class Requests:
    """Tasks by the request that made them, for as long as they live. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Request] = {}
        self._by_task: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def once(self, caller: str, name: str, digest: bytes, make: Callable[[], str]) -> str:
        """The task that `make` gives for a name that is new of this caller; for a known one the task it has given, or
        is just making.

        What failed may be tried again; a known name with other content is refused.
        """
        if len(name) > LONGEST:
            raise InvalidRequest(f"a request's name has {len(name)} characters; at most {LONGEST} are taken")
        with self._lock:
            known = self._known.get((caller, name))
            if known is None:
                request = self._known[caller, name] = _Request(digest)
        if known is not None:
            if known.digest != digest:
                raise Refused(
                    "this request has been made before with another plan, options or tables; name a new one anew",
                    reason="REQUEST_REUSED",
                )
            return known.task.result()
        try:
            task = make()
        except BaseException as error:
            with self._lock:
                del self._known[caller, name]
            request.task.set_exception(error)
            raise
        with self._lock:
            self._by_task[task] = caller, name
        request.task.set_result(task)
        return task

    def forget(self, task: str) -> None:
        """The task is gone."""
        with self._lock:
            named = self._by_task.pop(task, None)
            if named is not None:
                self._known.pop(named, None)
