"""Writing: the executors upload rows, and the driver adds the uploads of the successful attempts as one transaction.

The uploads are named by their attempts. An upload is not a split yet: a failed attempt, speculation or an aborted job
leaves uploads in the job's group that no split names, and those are dropped with the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...proto.errors import InvalidRequest, NotFound, TidegateError
from ...proto.values import AddRequest, FileSplit, Seal, Transaction
from ...transport.access import Access
from ...transport.remote import RemoteService
from ..frame_columns import fed_by_name, wanted_columns
from ..streamed_batches import batch_before, repeated
from ..uploading import in_uploads, upload
from ..wait_for_readers import once_read

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass
class Sent(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not looked into
    """The uploads of a partition, in order, and their streaming query."""

    partition: int
    paths: tuple[str, ...]
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """The source of a task that is fed."""

    access: Access
    task: str
    source: str
    seals: bool
    wait: float
    timeout: float

    def service(self) -> closing[RemoteService]:
        return closing(RemoteService(self.access, answer_seconds=self.timeout))

    def check_columns(self, schema: StructType) -> None:
        """Refuse a DataFrame whose columns the source cannot take. Spark calls this when it plans the write."""
        with self.service() as service:
            info = service.get_task(self.task)
        source = fed_by_name(info, self.source)
        missing = info.options.missing_columns
        wanted_columns(schema, source.name, source.schema, (), missing=missing, case_sensitive=True)

    def send(self, batches: Iterator[pa.RecordBatch], group: str) -> Sent:
        """Send the batches as uploads. Runs in an executor."""
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        query = None if context is None else context.getLocalProperty(_QUERY)
        paths = []
        with self.service() as service:
            for index, held in enumerate(in_uploads(batches)):
                name = f"{group}-{partition}-{attempt}-{index}.arrow"
                paths.append(upload(service, self.task, name, held, group))
        return Sent(partition, tuple(paths), query)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        application: str,
        version: int,
        group: str,
        follows: int | None = None,
    ) -> None:
        """Add the uploads in these messages, in the order of partitions, and drop all others of the group.

        A write that has taken effect does not fail where the others cannot be dropped: the service removes them later.
        """
        sent = sorted(
            (message for message in messages if isinstance(message, Sent)), key=lambda message: message.partition
        )
        splits = [(self.source, FileSplit(path, format="inline"), None) for message in sent for path in message.paths]
        request = AddRequest(splits=splits, seal=Seal() if self.seals else None)
        named = Transaction(application=application, version=version, follows=follows)
        with self.service() as service:
            try:
                once_read(partial(service.transact, self.task, named, request), self.wait)
            except NotFound as lost:  # the service has started again
                if lost.reason != "UPLOAD_GONE" or not self._has(service, named):
                    raise
            with suppress(TidegateError):
                service.drop_uploads(self.task, group)

    def _has(self, service: RemoteService, transaction: Transaction) -> bool:
        last = service.last_transaction(self.task, transaction.application)
        return last is not None and last.version >= transaction.version

    def commit_batch(
        self,
        messages: Sequence[WriterCommitMessage | None],
        application: str,
        batch: int,
        group: str,
        *,
        gaps: bool,
    ) -> None:
        """Commit a batch of a streaming query, unless the task has it. Refuses older batches, and gaps."""
        with self.service() as service:
            last = service.last_transaction(self.task, application)
        if repeated(last, self.task, application, batch) is not None:
            with suppress(TidegateError):
                self.abort(group)
        else:
            self.commit(messages, application, batch, group, batch_before(batch, gaps=gaps))

    def abort(self, group: str) -> None:
        with self.service() as service:
            service.drop_uploads(self.task, group)


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark is not looked into
    """`df.write`: a transaction."""

    def __init__(self, sink: Sink, job: str, application: str, version: int) -> None:
        self._sink = sink
        self._job = job
        self._application = application
        self._version = version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.send(iterator, self._job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.commit(messages, self._application, self._version, self._job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        self._sink.abort(self._job)


class StreamSinkWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # PySpark is not looked into
    """`writeStream`: each batch is a transaction, whose version is its id and whose application is the query."""

    def __init__(self, sink: Sink, job: str, application: str | None, *, gaps: bool) -> None:
        self._sink = sink
        self._job = job
        self._application = application
        self._gaps = gaps

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        return self._sink.send(iterator, self._group(None if context is None else context.getLocalProperty(_BATCH)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = [message.query for message in messages if isinstance(message, Sent) and message.query]
        if self._application is None and not queries:
            raise InvalidRequest(
                "Spark does not tell the id of the streaming query: name it with option('txnAppId', ...)",
                reason="APPLICATION_MISSING",
            )
        application = self._application or f"spark-query-{queries[0]}"
        self._sink.commit_batch(messages, application, batchId, self._group(batchId), gaps=self._gaps)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._sink.abort(self._group(batchId))

    def _group(self, batch: object) -> str:
        return f"{self._job}-{batch}"
