"""Makes calls that create a task safe to repeat: calls with the same request name create one task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from ...proto.current_call import elsewhere
from ...proto.errors import InvalidRequest, Refused

LONGEST = 200


@dataclass(frozen=True, slots=True)
class _Request:
    digest: bytes
    task: Future[str] = field(default_factory=Future)


class Requests:
    """Tasks by the request that made them, for as long as the tasks live. Thread-safe."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives
        self._known: dict[tuple[str, str], _Request] = {}
        self._by_task: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def once(self, caller: str, name: str, digest: bytes, make: Callable[[], str]) -> str:
        """The task of this caller's request `name`: made by `make` if the name is new, else the task that it made.

        A call that comes while the task is being made waits for it. A request that failed may be repeated. Raises
        `Refused` if the name is known with other content.
        """
        if len(name) > LONGEST:
            raise InvalidRequest(f"a request's name has {len(name)} characters; at most {LONGEST} are allowed")
        with self._lock:
            known = self._known.get((caller, name))
            if known is None:
                request = self._known[caller, name] = _Request(digest)
        if known is not None:
            if known.digest != digest:
                raise Refused(
                    "a request of this name was made before with another plan, options or tables: give the new "
                    "request another name",
                    reason="REQUEST_REUSED",
                )
            with elsewhere(in_turn=False):  # the call that makes the task may need a thread of those that make tasks
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
        if not self._lives(task):  # it was deleted before it was known here
            self.forget(task)
        request.task.set_result(task)
        return task

    def remember(self, caller: str, name: str, digest: bytes, task: str) -> None:
        """Know the request that made a task before the service was started again."""
        request = _Request(digest)
        request.task.set_result(task)
        with self._lock:
            self._known[caller, name] = request
            self._by_task[task] = caller, name

    def forget(self, task: str) -> None:
        """Forget a task that is gone."""
        with self._lock:
            named = self._by_task.pop(task, None)
            if named is not None:
                self._known.pop(named, None)
