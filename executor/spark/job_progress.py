"""Progress of a task's Spark job: Spark's account of its stages, and the reports of channels that have ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from ...proto.statistics import StageStatistics
from .worker.reports import Report

Heard: TypeAlias = tuple[int, bytes]
"""A run's number, and the report of a channel that has ended."""


class Ended:
    """An `AccumulatorParam` that collects reports. In the service it passes them on as they come.

    Spark delivers the reports of an attempt that ended well, before it counts the task as done.
    """

    def __init__(self, hear: Callable[[int, bytes], None] | None = None) -> None:
        self._hear = hear

    def zero(self, value: tuple[Heard, ...]) -> tuple[Heard, ...]:  # noqa: ARG002
        return ()

    def addInPlace(self, value1: tuple[Heard, ...], value2: tuple[Heard, ...]) -> tuple[Heard, ...]:  # noqa: N802
        if self._hear is None:
            return value1 + value2
        for run, report in value2:
            self._hear(run, report)
        return ()

    def __reduce__(self) -> tuple[type[Ended], tuple[()]]:
        return Ended, ()


class Progress:
    """The progress of the running job, or of the last one. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = 0
        self._reported: dict[int, StageStatistics] = {}
        self._ended: dict[int, list[Report]] = {}

    def begin(self, run: int) -> None:
        with self._lock:
            self._run = run
            self._reported, self._ended = {}, {}

    def tell(self, run: int, stages: Iterable[StageStatistics]) -> None:
        """Note what Spark says of this run, which may be over."""
        with self._lock:
            if run == self._run:
                self._reported |= {stage.stage: stage for stage in stages}

    def end(self, report: Report) -> None:
        """Note the first report of a channel that has ended."""
        with self._lock:
            self._ended.setdefault(report.spark_stage, []).append(report)

    def stages(self) -> tuple[StageStatistics, ...]:
        with self._lock:
            return tuple(self._stage(number) for number in sorted({*self._reported, *self._ended}))

    def _stage(self, number: int) -> StageStatistics:
        """A stage's statistics. A channel that has ended counts as a task done, even if Spark has not said so yet."""
        known = self._reported.get(number, StageStatistics(stage=number))
        ended = self._ended.get(number, [])
        done = max(known.done, len(ended))
        return replace(
            known,
            pipelines=tuple(sorted({report.stage for report in ended})),
            tasks=max(known.tasks, done),
            running=min(known.running, max(known.tasks, done) - done),
            done=done,
            rows_in=sum(report.rows_in for report in ended),
            rows_out=sum(report.rows_out for report in ended),
        )
