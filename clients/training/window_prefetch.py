"""Builds runs of batches ahead of their user, on a thread, within bounds of batches and bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from .batch_runs import Run


class Prefetch:
    """Runs in order. The next one is begun while fewer than `batches` batches and `size` bytes are ahead of the user.

    So at most one run is beyond the bounds. The thread ends with the runs, with an error, which is raised in its place
    in the order, and when `close` is called.
    """

    def __init__(self, runs: Iterator[Run], batches: int, size: int) -> None:
        self._runs = runs
        self._most_batches = batches
        self._most_bytes = size
        self._changed = threading.Condition()
        self._made: deque[Run | BaseException | None] = deque()
        self._batches = 0
        self._bytes = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._build, name="tidegate-training", daemon=True)

    def start(self) -> None:
        """Begin to build."""
        self._thread.start()

    def next_run(self) -> Run | None:
        """The next run; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._made)
            run = self._made.popleft()
            if not isinstance(run, Run):
                self._made.append(run)
        if isinstance(run, BaseException):
            raise run
        return run

    def took(self, batches: int, size: float) -> None:
        """Record that the user has taken batches. The thread stays asleep until there is room for another run."""
        with self._changed:
            self._batches -= batches
            self._bytes -= size
            if self._has_room():
                self._changed.notify_all()

    def close(self) -> None:
        """Let the thread end after the run that it builds."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the end of the thread, which comes when its work fails because the task is gone."""
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join()

    def _build(self) -> None:
        last: BaseException | None = None
        try:
            while self._may_go_on():
                run = next(self._runs, None)
                if run is None:
                    break
                self._add(run)
                del run  # the user may be done with it before the next one is built
        except BaseException as error:  # noqa: BLE001 - it is raised where the batches are taken
            last = error
        with self._changed:
            self._made.append(last)
            self._changed.notify_all()

    def _may_go_on(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room())
            return not self._closed

    def _has_room(self) -> bool:
        return self._batches < self._most_batches and self._bytes < self._most_bytes

    def _add(self, run: Run) -> None:
        with self._changed:
            self._made.append(run)
            self._batches += run.batches
            self._bytes += run.bytes
            self._changed.notify_all()
