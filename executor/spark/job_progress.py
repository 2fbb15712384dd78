"""How far a task's Spark job is: what Spark tells of its stages, and what channels tell that have ended."""

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
    """An `AccumulatorParam`: in the service reports are handed on as they come, elsewhere they are carried.

    Spark brings them when an attempt has ended well, before it takes notice of that.
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
    """Of the job that runs, or ran last. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = 0
        self._told: dict[int, StageStatistics] = {}
        self._ended: dict[int, list[Report]] = {}

    def begin(self, run: int) -> None:
        with self._lock:
            self._run = run
            self._told, self._ended = {}, {}

    def tell(self, run: int, stages: Iterable[StageStatistics]) -> None:
        """What Spark says now of this run, which may be over."""
        with self._lock:
            if run == self._run:
                self._told |= {each.stage: each for each in stages}

    def end(self, report: Report) -> None:
        """A channel has, and it is its first report."""
        with self._lock:
            self._ended.setdefault(report.spark_stage, []).append(report)

    def stages(self) -> tuple[StageStatistics, ...]:
        with self._lock:
            return tuple(self._stage(number) for number in sorted({*self._told, *self._ended}))

    def _stage(self, number: int) -> StageStatistics:
        """A channel that has ended is a task done, also where Spark has not told it yet."""
        told = self._told.get(number, StageStatistics(stage=number))
        ended = self._ended.get(number, [])
        done = max(told.done, len(ended))
        return replace(
            told,
            pipelines=tuple(sorted({each.stage for each in ended})),
            tasks=max(told.tasks, done),
            running=min(told.running, max(told.tasks, done) - done),
            done=done,
            rows_in=sum(each.rows_in for each in ended),
            rows_out=sum(each.rows_out for each in ended),
        )
