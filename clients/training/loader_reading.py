"""A reading of a loader's batches: its task, the runs that are built from it, and the run in hand."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Final

from ..task import Task
from .batch_runs import Given, Run
from .loader_statistics import Meter
from .split_reader import SplitReader
from .window_prefetch import Prefetch

LOTS: Final = 4
"""The thread that builds ahead learns of taken batches in so many lots: each costs a lock."""


class Reading:
    """An iterator of (batch, position after it), without a batch at an epoch's end.

    `close` ends the thread that builds ahead, and deletes the task.
    """

    def __init__(self, reader: SplitReader, runs: Iterator[Run], batches: int, size: int, meter: Meter) -> None:
        self._reader = reader
        self._runs = runs
        self._prefetch = Prefetch(runs, batches, size) if batches else None
        self._meter = meter
        self._run: Iterator[Given] = iter(())
        self._bytes_a_batch = 0.0
        self._took = 0
        self._lot = max(1, batches // LOTS)

    def start(self) -> None:
        """Begin to build ahead, if this reading does."""
        if self._prefetch is not None:
            self._prefetch.start()

    @property
    def task(self) -> Task:
        """A task that reads."""
        return self._reader.task

    def __iter__(self) -> Iterator[Given]:
        return self

    def __next__(self) -> Given:
        started, meter = perf_counter(), self._meter
        while (taken := next(self._run, None)) is None:
            if meter.started is None:
                meter.started = started
            self._tell()
            run = self._next_run()
            if run is None:
                raise StopIteration
            self._bytes_a_batch = run.bytes / max(1, run.batches)
            if self._prefetch is not None and not run.batches:
                self._prefetch.took(0, run.bytes)
            self._run = iter(run)
        batch, _ = taken
        if batch is not None:
            self._took += 1
            if self._took == self._lot:
                self._tell()
            meter.batches += 1
            meter.rows += batch.rows
        meter.waited_seconds += perf_counter() - started
        return taken

    def _tell(self) -> None:
        """Tell the thread that builds ahead of the batches that were taken."""
        if self._prefetch is not None and self._took:
            self._prefetch.took(self._took, self._took * self._bytes_a_batch)
        self._took = 0

    def _next_run(self) -> Run | None:
        return next(self._runs, None) if self._prefetch is None else self._prefetch.next_run()

    def close(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
        self._reader.close()
        if self._prefetch is not None:
            self._prefetch.join()
