"""Asks Spark for the progress of a job, without slowing the job.

For a classic session, a thread beside the one that waits for the job asks Spark now and then, and once more after the
job's end. A Spark Connect server reports by itself, on the waiting thread: the number of tasks, and of tasks done.
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
"""Seconds between two questions. A question takes a few milliseconds for each stage."""
_LAST_MS: Final = 2_000
"""Milliseconds for Spark to count the last events after a job's end."""

_log = logging.getLogger(__name__)


@contextmanager
def watched(context: SparkContext, tag: str, tell: Tell) -> Iterator[None]:
    """A context that reports the jobs of a classic session that have the tag, and reports them once more at its end."""
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
    """A context that reports the jobs of a Spark Connect session inside of it."""

    def handle(*, stages: Iterable[Any] | None, **_: object) -> None:
        progress = [(stage.stage_id, stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()]
        tell([StageStatistics(stage=stage, tasks=tasks, done=done) for stage, tasks, done in progress])

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)


def _stages(context: SparkContext, tag: str, *, last: bool = False) -> list[StageStatistics]:
    """The stages of the jobs with this tag; none if Spark cannot be asked.

    Then the job itself says why, if it matters.
    """
    try:
        spark = context._jsc.sc()
        if last:
            spark.listenerBus().waitUntilEmpty(_LAST_MS)
        tracker, store = spark.statusTracker(), spark.statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
        numbers = {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}
        return [_stage(store.lastStageAttempt(number)) for number in sorted(numbers)]
    except Exception:  # noqa: BLE001 - nobody waits for it
        _log.debug("Spark did not report the progress of its stages", exc_info=True)
        return []


def _stage(stage: Any) -> StageStatistics:
    return StageStatistics(
        stage=stage.stageId(),
        tasks=stage.numTasks(),
        running=stage.numActiveTasks(),
        done=stage.numCompleteTasks(),
        failed=stage.numFailedTasks(),
        bytes_in=stage.shuffleReadBytes(),
        bytes_out=stage.shuffleWriteBytes(),
        spilled_bytes=stage.diskBytesSpilled(),
    )
