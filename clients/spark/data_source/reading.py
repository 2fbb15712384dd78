"""Reading: each partition is a range of the result's rows, and the partitions in their order are the result."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ...proto.errors import Exhausted, InvalidRequest, Refused, TidegateError, Unavailable
from ...proto.source_names import check_fed
from ...proto.spark_frames import in_type_of_spark
from ...proto.values import FileSplit, FoundFile, PlanBytes, TaskInfo
from ...task_options import ChosenOptions
from ...transport.access import Access
from ...transport.remote import RemoteService
from .plan_parts import part_of
from .read_columns import check_columns
from .shared_files import FileRows, SharedFiles, files_of
from .shared_results import Range, Rows, SharedResult, at_live_task, barrier_of, batches, fill, ranges, result_of
from .table_shares import Share, parts_of, reads_row_by_row, share_rows

_ALL_COLUMNS: Final = ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOf:
    """The result to read: of a plan that is run for it, or of an epoch of a task."""

    access: Access
    plan: PlanBytes | None
    task: str | None
    epoch: int | None
    tables: Mapping[str, FileSplit]
    options: ChosenOptions
    columns: tuple[str, ...] | None
    limit: int | None
    partitions: int
    timeout: float
    not_null: tuple[str, ...] = ()
    """The columns that Spark reads as NOT NULL though the plan allows nulls in them; `_ALL_COLUMNS` for all of them."""

    def service(self) -> closing[RemoteService]:
        return closing(RemoteService(self.access, answer_seconds=self.timeout))

    def spark_schema(self) -> StructType:
        """The schema of the columns to read.

        Raises `InvalidRequest`, which names a column that Spark has no type for, or one of `not_null` that is not read.
        """
        if self.task is None:
            return spark_schema(self._with_not_null(self.selected(self.described(finding=True).schema)))
        with self.service() as service:
            return spark_schema(self._with_not_null(self.selected(service.get_task(self.task).schema)))

    def _with_not_null(self, schema: pa.Schema) -> pa.Schema:
        """The schema in which the columns of `not_null` allow no null. The reader looks for nulls in every batch."""
        names = schema.names if self.not_null == _ALL_COLUMNS else self.not_null
        for name in names:
            if name not in schema.names:
                raise InvalidRequest(
                    f"option('notNull', ...) names a column {name!r}, which is not read; there are: "
                    f"{', '.join(schema.names)}",
                    reason="MISSING_COLUMN",
                )
        return pa.schema([field.with_nullable(field.nullable and field.name not in names) for field in schema])

    def described(self, *, finding: bool = False) -> TaskInfo:
        """A task of the plan, as the service describes it. `finding`: the service looks for the tables' files."""
        with self.service() as service:
            info = self._create(service, self.plan)
            try:
                for name, split in self.tables.items() if finding else ():
                    _files(service, info.id, name, split)
            finally:
                service.delete_task(info.id)
        return info

    def shares(self, plan: PlanBytes, service: RemoteService) -> list[Share] | None:
        """The shares of the table that the plan reads row by row; None if it is another plan, or a small table."""
        if self.options.result_files or self.limit is not None or len(self.tables) != 1:
            return None
        if not reads_row_by_row(plan, service.explain(plan, self.options)):
            return None
        info = self._create(service, plan)
        try:
            [(source, split)] = self.tables.items()
            parts = parts_of(_files(service, info.id, source, split, pieces=True), self.partitions)
        finally:
            service.delete_task(info.id)
        if parts is None:
            return None
        return [Share(source, of_share, info.options, service.capabilities()) for of_share in parts]

    def selected(self, schema: pa.Schema) -> pa.Schema:
        """The columns to read, each of which has a name of its own. Raises `InvalidRequest` for others."""
        chosen = list(schema.names) if self.columns is None else list(self.columns)
        for name in chosen:
            if name not in schema.names:
                raise InvalidRequest(
                    f"the result has no column {name!r}; there are: {', '.join(schema.names)}", reason="MISSING_COLUMN"
                )
            if max(schema.names.count(name), chosen.count(name)) > 1:
                raise InvalidRequest(
                    f"column {name!r} would be read twice, and Spark tells columns of a data source apart by their "
                    "names: name each column once, in the plan and in option('columns', ...)",
                    reason="UNSUPPORTED_COLUMN",
                )
        return pa.schema([schema.field(name) for name in chosen])

    def on_cores(self, cores: int) -> ResultOf:
        """The result of which "auto" channels are chosen for so many cores; 0 if the channels are not "auto"."""
        if not cores:
            return self
        options = replace(self.options, auto_cores=cores, chosen=self.options.chosen | {"auto_cores"})
        return replace(self, options=options)

    def part(self, schema: pa.Schema) -> PlanBytes:
        """The part of the plan that is read. `schema` is that of the plan's whole result."""
        if self.plan is None:
            raise AssertionError("an epoch of a task is read as it is")
        return part_of(self.plan, schema, self.columns, self.limit)

    def create(self, plan: PlanBytes, request: str, service: RemoteService) -> str:
        """Make the task of this request, unless it is there."""
        return self._create(service, plan, request).id

    def fill(self, service: RemoteService, task: str) -> None:
        """Seal the tables' files as the task's epoch, unless it is done.

        The tables' files are fed. (What is computed from tables that a task is made with runs on one channel.)
        """
        try:
            fill(service, task, self.tables.items())
        except (Unavailable, Exhausted):
            raise  # others may read the task
        except TidegateError:
            with suppress(TidegateError):
                service.delete_task(task)
            raise

    def files(self, service: RemoteService, task: str) -> str:
        """A digest of the names, sizes and times of the tables' files, as far as an answer lists them."""
        listed = [_files(service, task, name, split) for name, split in self.tables.items()]
        seen = [(file.path, file.size, file.version, file.folders) for files in listed for file in files]
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:32]

    def _create(self, service: RemoteService, plan: PlanBytes | None, request: str = "") -> TaskInfo:
        if plan is None:
            raise AssertionError("a plan is needed to make a task")
        info = service.create_task(plan, self.options, {}, request=request)
        try:
            hint = "name its files with option('table.{name}', PATH), or feed a task and read it"
            check_fed(info.sources, self.tables, hint)
        except TidegateError:
            service.delete_task(info.id)
            raise
        return info


def _files(
    service: RemoteService, task: str, source: str, split: FileSplit, *, pieces: bool = False
) -> Sequence[FoundFile]:
    """The files of a table; none if they are too many for one answer. Raises what is wrong with the table's path."""
    try:
        return service.find_files(task, source, split, pieces=pieces)
    except Exhausted as many:
        if many.reason != "TOO_MANY_FILES":
            raise
        return ()


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


class PlanReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not looked into
    """Runs the plan on the service when Spark plans the first query of a loaded DataFrame; its rows, cut into ranges.

    Spark keeps the ranges for the DataFrame's later queries.
    """

    def __init__(self, result: ResultOf, schema: StructType) -> None:
        described = result.described()
        # A task that is made anew, by a service that has other cores now, must give each partition the same rows.
        self._result = result.on_cores(described.options.auto_cores)
        self._schema = schema
        self._whole = described.schema
        self._plan = self._result.part(self._whole)
        self._request = secrets.token_hex(16)

    def _create(self, service: RemoteService) -> str:
        return self._result.create(self._plan, self._request, service)

    def _begin(self, service: RemoteService) -> str:
        """The task, made unless it has been made, with its epoch."""
        task = self._create(service)
        self._result.fill(service, task)
        return task

    def partitions(self) -> list[InputPartition]:
        wanted: Sequence[Range | FileRows | Share] | None
        with self._result.service() as service:
            if (wanted := self._result.shares(self._plan, service)) is not None:
                check_columns(self._schema, self._result.selected(self._whole))
                return list(map(InputPartition, wanted))
            wanted = at_live_task(service, self._create, partial(self._parts_of, service))
        return [InputPartition(part) for part in wanted]

    def _parts_of(self, service: RemoteService, task: str) -> Sequence[Range | FileRows]:
        try:
            check_columns(self._schema, service.get_task(task).schema)
            files = self._result.files(service, task)  # before they are read: they may change
            self._result.fill(service, task)
            if self._result.options.result_files:
                return files_of(task, barrier_of(service, task).files, files)
            return ranges(result_of(service, task, files), self._result.partitions)
        except TidegateError:  # there is nothing to read
            with suppress(TidegateError):
                service.delete_task(task)
            raise

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        kept_seconds = self._result.options.idle_seconds
        with self._result.service() as service:
            match partition.value:
                case Share() as share:
                    rows = share_rows(service, self._plan, share)
                case FileRows() as file:
                    rows = SharedFiles(service, self._begin, kept_seconds, self._result.files).read(file)
                case wanted:
                    rows = SharedResult(service, self._begin, kept_seconds, self._result.files).read(wanted)
            yield from _in_types(rows, self._schema)


class EpochReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not looked into
    """Reads an epoch of a task, any number of times until it is acknowledged."""

    def __init__(self, result: ResultOf, schema: StructType) -> None:
        self._result = result
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        task = self._result.task or ""
        with self._result.service() as service:
            info = service.get_task(task)
            check_columns(self._schema, info.schema)
            epoch = self._result.epoch or info.completed_epoch or min(info.sealed_epoch, 1)  # computed as it is read
        if not epoch:
            raise Refused(
                f"task {task} has not completed an epoch yet: name the epoch to wait for with option('epoch', ...)",
                reason="NO_EPOCH_YET",
            )
        return [InputPartition(Rows(task, epoch, 0, self._result.limit))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self._result.service() as service:
            yield from _in_types(batches(service, partition.value), self._schema)


def _in_types(rows: Generator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The batches in the types that Spark expects."""
    wanted: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    with closing(rows):
        for batch in rows:
            arrays = [in_type_of_spark(batch.column(field.name), field) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted) if arrays else batch.select([])
