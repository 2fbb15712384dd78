"""`query`: a plan over DataFrames as a DataFrame, which Spark's executors compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from ..client import Client
from ..connecting import local
from ..plans import Plan, bound, plan_bytes
from ..proto.errors import InvalidRequest
from ..proto.source_names import check_fed, fed_source
from ..proto.spark_frames import FedFrame, Feeds, FrameFeeds, Resulting
from ..proto.values import FileSplit, MissingColumns, SourceInfo
from ..task_options import Options, chosen
from .data_frames import active_session, case_sensitive, data_frame, estimated_bytes, is_classic
from .data_source.reading import spark_schema
from .epoch_units import parts
from .feed_frames import feed
from .frame_columns import numbered, numbered_schema, wanted_columns
from .supplies.by_reference import referenced
from .supplies.spark_listing import NotPlain


def query(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    *,
    client: Client | None = None,
    staging: str | None = None,
    parameters: Mapping[int, object] | None = None,
    **options: Unpack[Options],
) -> DataFrame:
    """A plan over DataFrames, by the names of its sources, as a DataFrame.

    >>> tidegate.spark.query(plan, {"sales": data_frame}).collect()
    [Row(item='cup', total=8), Row(item='tea', total=7)]

    Like any DataFrame it is computed when its rows are wanted, by Spark's executors, and again when they are wanted
    again. No row passes the driver. `tidegate` must be installed on the executors. Every source needs a DataFrame.
    `options` are those of tasks; `channels` is "auto" if it is not given. `parameters` are values for the plan's
    dynamic parameters, as in `create_task`.

    With the `client` of a server, the server computes the plan at once, in a task that is gone when this returns. The
    rows then pass the server and the driver, so the answer must fit there. `staging` is for such a server.
    """
    return over_frames(bound(plan, parameters), frames, client=client, staging=staging, **options)


def over_frames(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    *,
    client: Client | None,
    staging: str | None,
    may_be_unread: bool = False,
    **options: Unpack[Options],
) -> DataFrame:
    """The plan's rows. A DataFrame that the plan does not read is refused, unless it `may_be_unread`."""
    frames = {name: data_frame(frame, f"the rows of source {name!r}") for name, frame in frames.items()}
    session = _session(frames)
    if client is not None and client.address is not None:
        return _by_server(plan, frames, client, staging, options, session, may_be_unread=may_be_unread)
    service = (_own() if client is None else client).service
    values: dict[str, Any] = {"channels": "auto", "executor": "spark", **options}
    if values["executor"] != "spark":
        raise InvalidRequest(
            f"executor={values['executor']!r}: Spark's executors compute the plan; leave executor out",
            reason="UNKNOWN_OPTION",
        )
    values["spark"] = service.adopt_spark(session)
    asked = chosen(values)
    feeds = _Feeding(frames, asked.missing_columns, may_be_unread=may_be_unread)
    result = service.over_frames(
        plan_bytes(plan), asked, FrameFeeds(session=session, sources=feeds.sources, result=_result)
    )
    assert isinstance(result, DataFrame)
    return result


@cache
def _own() -> Client:
    """The service of this process that plans all queries. It ends with the process."""
    return local()


def _session(frames: Mapping[str, DataFrame]) -> Any:
    first = next(iter(frames.values()), None)
    return active_session("the answer can be made") if first is None else first.sparkSession


def _result(schema: pa.Schema) -> Resulting:
    columns = spark_schema(schema) if len(schema) else StructType([StructField("_", IntegerType())])
    return Resulting(columns=columns, schema=to_arrow_schema(columns, timezone="UTC"))


class _Feeding:
    """Feeds sources from DataFrames: from their files where these are the DataFrame's rows, else from its rows."""

    def __init__(self, frames: Mapping[str, DataFrame], missing: MissingColumns, *, may_be_unread: bool) -> None:
        self._frames = frames
        self._missing = missing
        self._may_be_unread = may_be_unread

    def sources(self, sources: Sequence[SourceInfo]) -> Feeds:
        static = {source.name for source in sources if source.static}
        fed = [source for source in sources if not source.static]
        names = {source.name for source in fed}
        if self._may_be_unread:
            frames = {name: frame for name, frame in self._frames.items() if name in names}
        else:
            frames = {fed_source(name, names, static): frame for name, frame in self._frames.items()}
        check_fed(sources, frames, "give the source a DataFrame")
        return {source.name: self._source(source, frames[source.name]) for source in fed}

    def _source(self, source: SourceInfo, frame: DataFrame) -> FedFrame | list[FileSplit]:
        session = frame.sparkSession
        columns = wanted_columns(
            frame.schema,
            source.name,
            source.schema,
            (),
            missing=self._missing,
            case_sensitive=case_sensitive(session),
        )
        have = {column.name.casefold() for column in columns}
        absent = [name for name in source.schema.names if name.casefold() not in have]
        if is_classic(session):
            try:
                files = referenced(frame, columns, absent, None)
            except NotPlain:
                pass
            else:
                return [split for part in parts(files.units, None, files.groups, None) for split in part.splits]
        selected = frame.selectExpr(*numbered(columns))
        return FedFrame(frame=selected, schema=numbered_schema(columns), bytes=estimated_bytes(selected))


def _by_server(
    plan: Plan,
    frames: Mapping[str, DataFrame],
    client: Client,
    staging: str | None,
    options: Options,
    session: Any,
    *,
    may_be_unread: bool,
) -> DataFrame:
    with ExitStack() as stack:
        task = stack.enter_context(client.create_task(plan, **options))
        fed = {name: rows for name, rows in frames.items() if name in task.sources or not may_be_unread}
        check_fed(task.sources.values(), fed, "give the source a DataFrame")
        for source, rows in fed.items():
            feed(rows, task, source, staging=staging)
        task.request_barrier()
        answer = task.read_epoch()
    # Without a schema, timestamps without a time zone become instants. Spark takes no empty table with nested columns.
    rows = answer if answer.num_rows else []
    frame: DataFrame = session.createDataFrame(rows, spark_schema(answer.schema))
    return frame
