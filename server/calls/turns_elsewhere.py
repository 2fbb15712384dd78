"""Turns of calls that work elsewhere: to list folders and open files takes a core, too, if the storage is fast."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...proto.current_call import caller_has_left
from ...proto.errors import Unavailable

_LOOK_SECONDS: Final = 0.5


class TurnsElsewhere:
    """Lets so many calls `of_principal` work elsewhere at once, and without principals `of_all`. Further ones wait. Any
    thread may use it.
    """

    def __init__(self, of_principal: int, of_all: int) -> None:
        self._of_principal, self._of_all = of_principal, of_all
        self._working: Counter[str] = Counter()
        self._ended = threading.Condition()

    @contextmanager
    def turn(self, principal: str, closed: Callable[[], bool]) -> Iterator[None]:
        """A context of a call that works elsewhere, once it is a turn of its principal. Raises `Unavailable` if the
        pool is `closed` before, or the caller has gone.
        """
        most = self._of_principal if principal else self._of_all
        with self._ended:
            while self._working[principal] >= most:
                if closed() or caller_has_left():
                    raise Unavailable("the call has ended while it waited for other calls with slow folders or files")
                self._ended.wait(_LOOK_SECONDS)
            self._working[principal] += 1
        try:
            yield
        finally:
            with self._ended:
                self._working[principal] -= 1
                if not self._working[principal]:
                    del self._working[principal]
                self._ended.notify_all()
