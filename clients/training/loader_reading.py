"""A reading of a loader's batches: its tasks, the runs that are built from them, and the run in hand."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Final

from .building.ready_runs import Given, Run
from .building.window_prefetch import Build, Prefetch, one_by_one
from .loader_statistics import Meter
from .split_reader import SplitReaders

LOTS: Final = 12
"""The threads that build ahead learn of taken batches in so many lots: each costs a lock."""


class Reading:
    """An iterator of (batch, position after it), without a batch at an epoch's end.

    `batches` batches, and `size` bytes, are made ahead of its user. A build is expected to have `expected` batches.

    `close` ends the threads that build ahead, and deletes the tasks.
    """

    def __init__(
        self, readers: SplitReaders, builds: Iterator[Build], meter: Meter, *, batches: int, size: int, expected: int
    ) -> None:
        self._readers = readers
        self._prefetch = (
            Prefetch(builds, readers.all, batches=batches, size=size, expected=expected) if batches else None
        )
        self._runs = one_by_one(builds, readers.first)
        self._meter = meter
        self._run: Iterator[Given] = iter(())
        self._bytes_a_batch = 0.0
        self._took = 0
        self._lot = max(1, batches // LOTS)

    def start(self) -> None:
        """Begin to build ahead, if this reading does."""
        if self._prefetch is not None:
            self._prefetch.start()

    def __iter__(self) -> Iterator[Given]:
        return self

    def __next__(self) -> Given:
        started, meter = perf_counter(), self._meter
        if self._took >= self._lot:
            self._tell()
        while (taken := next(self._run, None)) is None:
            if meter.started is None:
                meter.started = started
            self._begin_run()
        meter.waited_seconds += perf_counter() - started
        batch, _ = taken
        if batch is not None:
            self._took += 1
            meter.batches += 1
            meter.rows += batch.rows
        return taken

    def _begin_run(self) -> None:
        self._tell()
        run = self._next_run()
        if run is None:
            raise StopIteration
        self._bytes_a_batch = run.bytes / max(1, run.batches)
        if self._prefetch is not None and not run.batches:
            self._prefetch.took(1, run.bytes)
        self._run = iter(run)

    def _tell(self) -> None:
        """Tell the threads that build ahead of the batches that were taken."""
        if self._prefetch is not None and self._took:
            self._prefetch.took(self._took, self._took * self._bytes_a_batch)
        self._took = 0

    def _next_run(self) -> Run | None:
        return next(self._runs, None) if self._prefetch is None else self._prefetch.next_run()

    def close(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
        self._readers.close()
        if self._prefetch is not None:
            self._prefetch.join()
