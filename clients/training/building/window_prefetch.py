"""Builds windows ahead of their user, on several threads, within bounds of batches and bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import NamedTuple, Protocol, TypeAlias

from ..split_reader import SplitReader
from .ready_runs import Run
from .row_gathering import RowGathering


class Builder(NamedTuple):
    """The reader and the memory of a thread that builds windows."""

    reader: SplitReader
    gathering: RowGathering


Runs: TypeAlias = Callable[[], Iterator[Run]]
"""Makes the runs of a window that was built. It is called once, after those of all windows before."""


class Build(Protocol):
    """A window that is to be built. `build` is the work; builds that were begun before may be at theirs meanwhile."""

    def build(self, builder: Builder) -> Runs: ...


_Built: TypeAlias = Runs | BaseException | None


def one_by_one(builds: Iterator[Build], reader: SplitReader) -> Iterator[Run]:
    """The runs of all builds, which the caller's thread does when it needs them."""
    builder = Builder(reader, RowGathering())
    for build in builds:
        yield from build.build(builder)()


class _Failed(NamedTuple):
    """A build in place of one that could not be told."""

    error: BaseException

    def build(self, _: Builder) -> Runs:
        raise self.error


class Prefetch:
    """Runs in the order of their builds. A thread for each of the `readers` begins the next build while fewer than
    `batches` batches and `size` bytes are ahead of the user, with those that are being built: a build is expected to
    have as many as those before it on average, and the first ones `expected` batches.

    The threads end with the builds, with an error, which is raised in its place in the order, and when `close` is
    called.
    """

    def __init__(
        self, builds: Iterator[Build], readers: Sequence[SplitReader], *, batches: int, size: int, expected: int
    ) -> None:
        self._builds = builds
        self._most_batches, self._most_bytes, self._expected = batches, size, expected
        self._beginning = threading.Lock()  # its holder takes the next build
        self._ordering = threading.Lock()  # its holder makes runs
        # The user's thread takes this lock itself, and not by the condition, whose steps are those of Python: Ctrl-C
        # could come between two of them, with the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._begun = self._placed = 0
        self._waiting: dict[int, _Built] = {}  # for builds before theirs, by number
        self._made: SimpleQueue[Run | BaseException | None] = SimpleQueue()
        self._batches, self._bytes = 0, 0.0  # made, and not taken
        self._all_batches, self._all_bytes = 0, 0
        self._over = self._ended = False
        self._threads = [
            threading.Thread(
                target=self._work, args=(Builder(reader, RowGathering()),), name="tidegate-training", daemon=True
            )
            for reader in readers
        ]

    def start(self) -> None:
        """Begin to build."""
        for thread in self._threads:
            thread.start()

    def next_run(self) -> Run | None:
        """The next run; None at the end."""
        run = self._made.get()
        if not isinstance(run, Run):
            self._made.put(run)
        if isinstance(run, BaseException):
            raise run
        return run

    def took(self, batches: int, size: float) -> None:
        """Record that the user has taken batches; an end of an epoch that came alone counts as one. The threads stay
        asleep until there is room for another build.
        """
        with self._lock:
            self._batches -= batches
            self._bytes -= size
            if self._has_room():
                self._changed.notify_all()

    def close(self) -> None:
        """Let each thread end after the window that it builds. The runs end with those that are made."""
        with self._lock:
            self._end(None)

    def join(self) -> None:
        """Wait for the end of the threads, which comes when their work fails because the tasks are gone.

        One of them may be the caller, where Python collects a loader. It does not wait: others may wait for it.
        """
        if threading.current_thread() not in self._threads:
            for thread in filter(threading.Thread.is_alive, self._threads):
                thread.join()

    # On the threads

    def _work(self, builder: Builder) -> None:
        while (begun := self._begin()) is not None:
            number, build = begun
            self._place(number, _built(build, builder))

    def _begin(self) -> tuple[int, Build | None] | None:
        """The number of a build, and the build, once there is room for it: None where the builds have ended. None in
        place of both if no more is to be built.
        """
        with self._beginning:
            with self._lock:
                self._changed.wait_for(lambda: self._over or self._has_room())
                if self._over:
                    return None
                number, self._begun = self._begun, self._begun + 1
            try:
                return number, next(self._builds, None)
            except BaseException as error:  # noqa: BLE001 - it is raised where the batches are taken
                return number, _Failed(error)

    def _has_room(self) -> bool:
        """True if what is made, and what is begun, leaves room for another build."""
        begun, placed = self._begun - self._placed, self._placed
        batches = self._all_batches / placed if placed else self._expected
        size = self._all_bytes / placed if placed else 0
        return self._batches + begun * batches < self._most_batches and self._bytes + begun * size < self._most_bytes

    def _place(self, number: int, built: _Built) -> None:
        """Take what came of a build. Make its runs, and those of builds after it, once those before it are made."""
        if not callable(built):
            with self._lock:
                self._over = True  # builds that were not begun are of no use
                self._changed.notify_all()
        with self._ordering:
            self._waiting[number] = built
            while (at := self._placed) in self._waiting:
                self._make(self._waiting.pop(at))

    def _make(self, built: _Built) -> None:
        """Make the runs of the next build in order. Behind the end, or an error, nothing is made."""
        last = None if callable(built) else built
        ends = not callable(built)
        if callable(built) and not self._ended:
            try:
                for run in built():
                    self._add(run)
            except BaseException as error:  # noqa: BLE001 - as above
                last, ends = error, True
        with self._lock:
            self._placed += 1
            if ends:
                self._end(last)
            self._changed.notify_all()

    def _end(self, last: BaseException | None) -> None:
        """End the runs with an error, or without, unless they have ended."""
        if not self._ended:
            self._over = self._ended = True
            self._made.put(last)
        self._changed.notify_all()

    def _add(self, run: Run) -> None:
        batches = run.batches or 1  # an end of an epoch alone takes the place of a batch
        with self._lock:
            self._made.put(run)
            self._batches += batches
            self._bytes += run.bytes
            self._all_batches += batches
            self._all_bytes += run.bytes
            self._changed.notify_all()


def _built(build: Build | None, builder: Builder) -> _Built:
    """What comes of a build: None of the end of all builds, and an error of one that fails."""
    try:
        return None if build is None else build.build(builder)
    except BaseException as error:  # noqa: BLE001 - as above
        return error
