"""The data source `tidegate`: a plan's result as a DataFrame, and a source of a task as a sink.

Nothing here runs in the user's own process. Spark plans, reads and writes in Python workers of the driver and the
executors. These processes share only options, partitions and messages, and each reaches the service by its address.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from ...plans import with_parameters
from ...proto.encoding.plan_parameters import numbered
from ...proto.errors import InvalidRequest
from ...proto.values import FileSplit, PlanBytes
from ...task_options import AUTO, ChosenOptions, chosen
from ...transport.access import Access, access
from ..data_frames import is_classic
from .catalog_tables import check_written, of_clause, options_to_read, with_options
from .reading import EpochReader, PlanReader, ResultOf
from .shared_results import KEPT_SECONDS
from .writing import Sink, StreamSinkWriter, TableWriter

SERVER: Final = "TIDEGATE_SERVER"
_REACHING: Final = {"server", "tokenfile", "tls", "plaintexttoken", "flight", "timeout"}
_RECONNECT_SECONDS: Final = 20.0  # less than a client's: Spark runs a failed task again itself
_READING: Final = _REACHING | {
    "plan",
    "task",
    "epoch",
    "columns",
    "notnull",
    "limit",
    "partitions",
    "path",
    "channels",
}
_WRITING: Final = _REACHING | {
    "task",
    "source",
    "seals",
    "txnappid",
    "txnversion",
    "wait",
    "path",
    "checkpointlocation",
}
_NUMBERS: Final = ("memory_limit", "spill_quota", "output_bytes")
_LARGEST: Final = 2**63 - 1
_TABLE: Final = "table."
_PARAMETER: Final = "parameter."


def register(session: SparkSession) -> None:
    """Register `spark.read.format("tidegate")` and the writers with a session.

    >>> tidegate.spark.register(session)
    >>> reader = session.read.format("tidegate").options(server=address, task=task.id, epoch=1)
    """
    with _active(session):
        session.dataSource.register(TidegateSource)


@contextmanager
def _active(session: Any) -> Iterator[None]:
    """A context in which the session is the thread's active one.

    Spark looks there for a source of the same name, and refuses to register a source that another session has.
    """
    if not is_classic(session):
        yield
        return
    of_jvm = session._jvm.SparkSession
    before = of_jvm.getActiveSession()
    of_jvm.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            of_jvm.setActiveSession(before.get())
        else:
            of_jvm.clearActiveSession()


class TidegateSource(DataSource):  # type: ignore[misc]  # PySpark is not looked into
    """The data source, as Spark makes it for each read and each write."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = {name.lower(): value for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        return "tidegate"

    def schema(self) -> StructType:
        created = of_clause(self._given)
        schema = self._result(self._given if created is None else created).spark_schema()
        return schema if created is None else with_options(schema, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        result = self._result(options_to_read(self._given, schema))
        return PlanReader(result, schema) if result.task is None else EpochReader(result, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = _checked(self._given, _WRITING)
        if overwrite:
            raise InvalidRequest(
                "a write adds splits to a task and cannot overwrite the task's splits: write with mode('append')"
            )
        job = secrets.token_hex(8)
        version = _number(options, "txnversion", 0)
        if ("txnversion" in options) != ("txnappid" in options):
            raise InvalidRequest("txnAppId and txnVersion belong together: give both, or neither")
        return TableWriter(_sink(options, schema), job, options.get("txnappid", f"spark-write-{job}"), version)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = _checked(self._given, (_WRITING | {"gaps"}) - {"txnversion"})
        if overwrite:
            raise InvalidRequest(
                "a batch adds splits to a task and cannot overwrite its splits, as outputMode('complete') would: write "
                "with outputMode('append'), or feed the rows that change with tidegate.spark.stream and "
                "outputMode('update')"
            )
        sink, gaps = _sink(options, schema), _flag(options, "gaps", False)
        return StreamSinkWriter(sink, secrets.token_hex(8), options.get("txnappid"), gaps=gaps)

    def _result(self, read_options: Mapping[str, str]) -> ResultOf:
        options = _checked(read_options, _READING | set(_NUMBERS) | {"time_zone", "idle_seconds", "executor"})
        task, plan = options.get("task"), options.get("plan", options.get("path"))
        if (task is None) == (plan is None):
            raise InvalidRequest(
                "there is nothing to read, or too much: give either a `plan`, or the `task` whose result is read"
            )
        limit = _number(options, "limit") if "limit" in options else None
        return ResultOf(
            access=_access(options),
            plan=None if plan is None else _plan(plan, options),
            task=task,
            epoch=_number(options, "epoch") if "epoch" in options else None,
            tables=_tables(options),
            options=_task_options(options),
            columns=_names(options, "columns"),
            not_null=_names(options, "notnull") or (),
            limit=limit,
            partitions=max(1, _number(options, "partitions", _channels(options) or 1)),
            timeout=_timeout(options),
        )


def _checked(options: Mapping[str, str], known: set[str]) -> Mapping[str, str]:
    for name in options:
        if name not in known and not name.startswith((_TABLE, _PARAMETER)):
            raise InvalidRequest(
                f"{name!r} is not an option here; there are: {', '.join(sorted(known - {'path'}))}, table.NAME "
                "and parameter.NUMBER",
                reason="UNKNOWN_OPTION",
            )
    return options


def _access(options: Mapping[str, str]) -> Access:
    """The access without a token. The token is in a file, or in the environment of each process that needs it."""
    address = options.get("server", os.environ.get(SERVER))
    if not address:
        raise InvalidRequest(f"name the server: option('server', 'HOST:PORT'), or {SERVER} in the environment")
    tls = options.get("tls")
    return access(
        address,
        token_file=options.get("tokenfile"),
        tls=None if tls is None else {"true": True, "false": False}.get(tls.lower(), tls),
        plaintext_token=_flag(options, "plaintexttoken", False),
        reconnect_seconds=_RECONNECT_SECONDS,
        flight=_flag(options, "flight", True),
    )


def _plan(text: str, options: Mapping[str, str]) -> PlanBytes:
    """The plan, JSON text or else a file of the driver's machine, with the values of its parameters."""
    parameters = dict(
        numbered(name[len(_PARAMETER) :], value) for name, value in options.items() if name.startswith(_PARAMETER)
    )
    return with_parameters(text if text.lstrip().startswith("{") else Path(text), parameters)


def _tables(options: Mapping[str, str]) -> Mapping[str, FileSplit]:
    return {name[len(_TABLE) :]: FileSplit(path) for name, path in options.items() if name.startswith(_TABLE)}


def _task_options(options: Mapping[str, str]) -> ChosenOptions:
    values: dict[str, Any] = {name: _number(options, name) for name in _NUMBERS if name in options}
    values["channels"] = _channels(options) or AUTO
    executor = options.get("executor", "local")
    if executor == "spark":
        values |= {"executor": executor, "result_files": True}
        if "partitions" in options:
            raise InvalidRequest(
                "partitions cannot be chosen with option('executor', 'spark'): each channel writes one partition; "
                "choose channels",
                reason="UNKNOWN_OPTION",
            )
    elif executor != "local":
        raise InvalidRequest(f"executor={executor!r} must be local or spark", reason="UNKNOWN_OPTION")
    if "time_zone" in options:
        values["time_zone"] = options["time_zone"]
    return chosen({**values, "idle_seconds": _seconds(options, "idle_seconds", KEPT_SECONDS)})


def _number(options: Mapping[str, str], name: str, default: int = 0) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal():
        raise InvalidRequest(f"{name}={text!r} must be a whole number")
    if (number := int(text)) > _LARGEST:
        raise InvalidRequest(f"{name}={text!r} must be at most {_LARGEST}")
    return number


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = options.get(name)
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name, str(default))
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{name}={text!r} must be a number of seconds") from None


def _channels(options: Mapping[str, str]) -> int:
    """The number of channels; 0 if the server is to choose it, or it is not given."""
    return 0 if options.get("channels", AUTO) == AUTO else _number(options, "channels")


def _timeout(options: Mapping[str, str]) -> float:
    seconds = _number(options, "timeout", 300)
    if not seconds:
        raise InvalidRequest("timeout must be at least 1: the number of seconds to wait for an answer")
    return float(seconds)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"{name}={text!r} must be true or false")
    return text == "true"


def _sink(options: Mapping[str, str], schema: StructType) -> Sink:
    check_written(options)
    if "source" not in options:
        raise InvalidRequest("name the source to feed: option('source', ...)")
    sink = Sink(
        access=_access(options),
        task=options["task"],
        source=options["source"],
        seals=_flag(options, "seals", True),
        wait=float(_number(options, "wait", 300)),
        timeout=_timeout(options),
    )
    sink.check_columns(schema)
    return sink
