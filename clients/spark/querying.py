"""`query`: a plan over DataFrames, its answer as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..client import Client
from ..connecting import local
from ..plans import Plan
from ..proto.errors import InvalidRequest
from .feeding import feed


def query(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    *,
    client: Client | None = None,
    staging: str | None = None,
    **options: Any,
) -> DataFrame:
    """Run a plan over DataFrames, by the names of its sources, and return its answer as a DataFrame.

    One epoch of a task of `client`, or of a service inside the driver; the task is gone when this returns. The answer
    passes through the driver, so this is for answers that fit there. `options` are those of tasks.
    """
    session = _session(frames)
    with ExitStack() as stack:
        service = client if client is not None else stack.enter_context(local())
        task = stack.enter_context(service.create_task(plan, **options))
        for source, frame in frames.items():
            feed(frame, task, source, staging=staging)
        task.request_barrier()
        answer = task.read_epoch()
    made: DataFrame = session.createDataFrame(answer)
    return made


def _session(frames: Mapping[str, DataFrame]) -> Any:
    session = next((frame.sparkSession for frame in frames.values()), None) or SparkSession.getActiveSession()
    if session is None:
        raise InvalidRequest("the answer is made by the active Spark session, and there is none", reason="NO_SESSION")
    return session
