"""`query`: runs a plan over DataFrames, with its answer as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Unpack

from pyspark.sql import DataFrame

from ..client import Client
from ..connecting import local
from ..plans import Plan
from ..proto.source_names import check_fed
from ..task_options import Options
from .data_frames import active_session
from .data_source.reading import spark_schema
from .feed_frames import feed


def query(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    *,
    client: Client | None = None,
    staging: str | None = None,
    **options: Unpack[Options],
) -> DataFrame:
    """Run a plan over DataFrames, by the names of its sources, and return its answer as a DataFrame.

    >>> tidegate.spark.query(plan, {"sales": data_frame}).collect()
    [Row(item='cup', total=8), Row(item='tea', total=7)]

    The plan runs as one epoch of a task of `client`, or of a service inside the driver; the task is gone when this
    returns. The answer passes through the driver, so it must fit there. Every source needs a DataFrame. `options` are
    those of tasks.
    """
    return answered(plan, frames, client=client, staging=staging, **options)


def answered(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    *,
    client: Client | None,
    staging: str | None,
    may_be_unread: bool = False,
    **options: Unpack[Options],
) -> DataFrame:
    """The plan's answer. A DataFrame that the plan does not read is refused, unless it `may_be_unread`."""
    session = _session(frames)
    with ExitStack() as stack:
        service = client if client is not None else stack.enter_context(local())
        task = stack.enter_context(service.create_task(plan, **options))
        fed = {name: rows for name, rows in frames.items() if name in task.sources or not may_be_unread}
        check_fed(task.sources.values(), fed, "give the source a DataFrame")
        for source, rows in fed.items():
            feed(rows, task, source, staging=staging)
        task.request_barrier()
        answer = task.read_epoch()
    # Without a schema, timestamps without a time zone become instants.
    frame: DataFrame = session.createDataFrame(answer, spark_schema(answer.schema))
    return frame


def _session(frames: Mapping[str, DataFrame]) -> Any:
    first = next(iter(frames.values()), None)
    return active_session("the answer can be made") if first is None else first.sparkSession
