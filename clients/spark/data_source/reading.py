"""Reading: each partition is a range of the result's rows, and the partitions in their order are the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ...proto.errors import EpochError, InvalidRequest, Refused, TaskFailed
from ...proto.values import Barrier, Cursor, Data, FileSplit, Finished, PlanBytes, TaskInfo, TaskOptions, TaskPhase
from ...transport.access import Access
from ...transport.remote import RemoteService
from ..uploading import RETRY_SECONDS
from .plan_parts import part_of

_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOf:
    """The result to read: of a plan that is run for it, or of an epoch of a task."""

    access: Access
    plan: PlanBytes | None
    task: str | None
    epoch: int | None
    tables: Mapping[str, FileSplit]
    options: TaskOptions
    columns: tuple[str, ...] | None
    limit: int | None
    partitions: int
    timeout: float

    def service(self) -> closing[RemoteService]:
        return closing(RemoteService(self.access, RETRY_SECONDS, answer_seconds=self.timeout))

    def spark_schema(self) -> StructType:
        """The schema of the columns to read.

        Raises `InvalidRequest`, which names a column that Spark has no type for.
        """
        with self.service() as service:
            schema = service.get_task(self.task).schema if self.task is not None else self._plan_schema(service)
        return spark_schema(self.selected(schema))

    def selected(self, schema: pa.Schema) -> pa.Schema:
        if self.columns is None:
            return schema
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise InvalidRequest(
                f"the result has no column {missing[0]!r}; there are: {', '.join(schema.names)}",
                reason="MISSING_COLUMN",
            )
        return pa.schema([schema.field(name) for name in self.columns])

    def _plan_schema(self, service: RemoteService) -> pa.Schema:
        info = self.create(service, self.plan)
        service.delete_task(info.id)
        return info.schema

    def create(self, service: RemoteService, plan: PlanBytes | None) -> TaskInfo:
        if plan is None:
            raise AssertionError("a plan is needed to make a task")
        info = service.create_task(plan, self.options, {name: [split] for name, split in self.tables.items()})
        fed = [source.name for source in info.sources if not source.static]
        if fed:
            service.delete_task(info.id)
            raise InvalidRequest(
                f"the plan reads source {fed[0]!r}, which has no files: name the files with option('table.{fed[0]}', "
                "PATH), or feed a task and read the task"
            )
        return info

    def begin(self, service: RemoteService) -> str:
        """Make a task of the part of the plan that is read, with one sealed epoch. Nobody needs to delete the task."""
        plan = self.plan
        if plan is not None and (self.columns is not None or self.limit is not None):
            plan = part_of(plan, self._plan_schema(service), self.columns, self.limit)
        info = self.create(service, plan)
        service.request_barrier(info.id, 1)
        return info.id


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema in Spark's types. Raises `InvalidRequest`, which names a column that Spark has no type for."""
    fields = []
    for field in schema:
        try:
            fields += from_arrow_schema(pa.schema([field])).fields
        except Exception as unknown:
            raise InvalidRequest(
                f"column {field.name!r} is {field.type}, for which Spark has no type: cast the column in the plan, "
                "or leave the column out with option('columns', ...)",
                reason="UNSUPPORTED_COLUMN",
            ) from unknown
    return StructType(fields)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows from `first` to before `end`, if there is one, of an epoch of a task."""

    task: str
    epoch: int
    first: int
    end: int | None


class PlanReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not looked into
    """Runs the plan on the service when Spark plans the query, and cuts its rows into ranges once they are known."""

    def __init__(self, result: ResultOf, schema: StructType) -> None:
        self._result = result
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        with self._result.service() as service:
            task = self._result.begin(service)
            rows = _rows(service, task)
        count = self._result.partitions
        bounds = [rows * part // count for part in range(count + 1)]
        return [InputPartition(Rows(task, 1, *bounds[part : part + 2])) for part in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(self._result, partition.value, self._schema)


class EpochReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not looked into
    """Reads an epoch of a task, any number of times until it is acknowledged."""

    def __init__(self, result: ResultOf, schema: StructType) -> None:
        self._result = result
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        task = self._result.task or ""
        with self._result.service() as service:
            info = service.get_task(task)
            epoch = self._result.epoch or info.completed_epoch or min(info.sealed_epoch, 1)  # computed as it is read
        if not epoch:
            raise Refused(
                f"task {task} has not completed an epoch yet: name the epoch to wait for with option('epoch', ...)",
                reason="NO_EPOCH_YET",
            )
        return [InputPartition(Rows(task, epoch, 0, self._result.limit))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(self._result, partition.value, self._schema)


def _rows(service: RemoteService, task: str) -> int:
    """The number of rows of the epoch, once it is complete."""
    while True:
        info = service.get_task(task)
        if info.state is TaskPhase.FAILED:
            raise TaskFailed(info.error.message if info.error is not None else "the task has failed")
        cursor = Cursor(1, info.statistics.output_rows)
        try:
            frames = service.next(task, cursor, max_bytes=1, wait=_WAIT)
        except Refused as refused:
            if refused.reason != "OUTPUT_FULL":
                raise
            raise Refused(
                f"the result is larger than option('spill_quota', ...), {info.options.spill_quota} bytes, which the "
                "server keeps until all partitions are read: raise spill_quota",
                reason="OUTPUT_FULL",
            ) from None
        for frame in frames:
            if isinstance(frame, Barrier):
                _check(frame)
                return frame.rows


def _check(barrier: Barrier) -> None:
    if barrier.error is not None:
        raise EpochError(barrier.error.message, epoch=barrier.epoch, reason=barrier.error.reason)


def _read(result: ResultOf, rows: Rows, schema: StructType) -> Iterator[pa.RecordBatch]:
    wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    with result.service() as service:
        for batch in _batches(service, rows):
            yield batch.select(wanted.names).cast(wanted) if len(wanted) else batch.select([])


def _batches(service: RemoteService, rows: Rows) -> Iterator[pa.RecordBatch]:
    row = rows.first
    while rows.end is None or row < rows.end:
        frame: Any
        for frame in service.next(rows.task, Cursor(rows.epoch, row), wait=_WAIT):
            match frame:
                case Data():
                    for batch in frame.batches:
                        left = batch.num_rows if rows.end is None else max(0, min(batch.num_rows, rows.end - row))
                        if left:
                            yield batch.slice(0, left)
                        row += batch.num_rows
                case Barrier():
                    _check(frame)
                    return
                case Finished():
                    return
