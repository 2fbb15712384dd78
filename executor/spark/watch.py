"""What Spark tells of a job while it runs, without keeping it from anything.

A classic session is asked now and then by a thread beside the one that waits for the job, and once when it has ended.
Over Spark Connect the server says it by itself, on the thread that waits: how many tasks there are and are done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from pyspark import SparkContext

from ...proto.statistics import StageStatistics

Tell: TypeAlias = Callable[[Iterable[StageStatistics]], None]

INTERVAL: Final = 0.5
"""Seconds between two questions: one takes a few milliseconds for each stage."""
_LAST_MS: Final = 2_000
"""For what the job's end has set off in Spark to be counted."""

_log = logging.getLogger(__name__)


@contextmanager
def watched(context: SparkContext, tag: str, tell: Tell) -> Iterator[None]:
    """The jobs of a classic session that have the tag, inside the context and at last behind it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            tell(_stages(context, tag))
        tell(_stages(context, tag, last=True))

    threading.Thread(target=watch, name="spark-progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def connected(session: Any, tell: Tell) -> Iterator[None]:
    """What a session of Spark Connect runs inside the context."""

    def handle(*, stages: Iterable[Any] | None, **_: object) -> None:
        told = [(each.stage_id, each.num_tasks, each.num_completed_tasks) for each in stages or ()]
        tell([StageStatistics(stage=stage, tasks=tasks, done=done) for stage, tasks, done in told])

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)


def _stages(context: SparkContext, tag: str, *, last: bool = False) -> list[StageStatistics]:
    """None where Spark cannot be asked: its job says why, if it matters."""
    try:
        spark = context._jsc.sc()
        if last:
            spark.listenerBus().waitUntilEmpty(_LAST_MS)
        tracker, store = spark.statusTracker(), spark.statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
        numbers = {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}
        return [_stage(store.lastStageAttempt(number)) for number in sorted(numbers)]
    except Exception:  # noqa: BLE001 - nobody waits for it
        _log.debug("Spark did not tell how far its stages are", exc_info=True)
        return []


def _stage(told: Any) -> StageStatistics:
    return StageStatistics(
        stage=told.stageId(),
        tasks=told.numTasks(),
        running=told.numActiveTasks(),
        done=told.numCompleteTasks(),
        failed=told.numFailedTasks(),
        bytes_in=told.shuffleReadBytes(),
        bytes_out=told.shuffleWriteBytes(),
        spilled_bytes=told.diskBytesSpilled(),
    )
