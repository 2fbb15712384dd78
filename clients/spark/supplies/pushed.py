"""Supply by push: the executors send the rows to the service as uploads, named (job, partition, index).

Each attempt of a Spark task sends its own uploads, and answers with one small row for each; Spark collects the rows of
the successful attempt. So neither a retry nor speculation brings a row twice, and the order of arrival does not show.
When the job has ended, the driver adds the uploads as splits, by partition and index, and drops those of other
attempts. An added upload is removed when its epoch is acknowledged. Executors need `tidegate` and its dependencies.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from ...proto import errors
from ...proto.errors import Refused, RequestError, TidegateError
from ...task import Task
from ...transport.access import Access
from ...transport.remote import RemoteService
from ..epoch_units import Unit
from ..frame_columns import Column, numbered, numbered_schema, quoted
from ..uploading import in_uploads, upload

_SENT: Final = pa.schema(
    [
        ("partition", pa.int64()),
        ("index", pa.int64()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("stored", pa.int64()),
        ("reason", pa.string()),
        ("refused", pa.string()),
    ]
)
_SENT_DDL: Final = "partition long, index long, path string, rows long, stored long, reason string, refused string"


@dataclass(frozen=True, slots=True)
class Push:
    """Sends the batches of a partition. Runs in the executors.

    A refusal of the service is returned as an answer, because running the Spark task again would not help.
    """

    access: Access
    task: str
    job: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        try:
            yield from self._sent(batches, partition)
        except RequestError as refused:
            yield _sent(partition, -1, reason=refused.reason, refused=f"{type(refused).__name__}: {refused}")

    def _sent(self, batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[pa.RecordBatch]:
        with closing(RemoteService(self.access)) as service:
            for index, held in enumerate(in_uploads(map(self._typed, batches))):
                path = upload(service, self.task, f"{self.job}-{partition}-{index}.arrow", held, self.job)
                rows, stored = sum(batch.num_rows for batch in held), sum(batch.nbytes for batch in held)
                yield _sent(partition, index, path=path, rows=rows, stored=stored)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the wanted types. Spark gives instants in the session's zone."""
        arrays = [array.cast(field.type) for array, field in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _sent(
    partition: int, index: int, *, path: str = "", rows: int = 0, stored: int = 0, reason: str = "", refused: str = ""
) -> pa.RecordBatch:
    values = (partition, index, path, rows, stored, reason, refused)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(values, _SENT, strict=True)], schema=_SENT
    )


@dataclass(frozen=True, slots=True)
class Pushed:
    """The uploads in their order, and the name of their job."""

    job: str
    units: tuple[Unit, ...]


def obstacle(task: Task) -> str | None:
    """The reason why executors cannot send rows to the service, or None."""
    return None if task.address else "the task's service runs inside this process, and executors cannot reach it there"


def pushed(
    frame: DataFrame, columns: Sequence[Column], task: Task, order_by: Sequence[str], job: str | None = None
) -> Pushed:
    """Run the Spark job that sends the rows, and return when all have been sent.

    Without a name for the `job` it gets one of its own. Uploads of an earlier job of that name that no split names are
    dropped.
    """
    if task.access is None:
        raise Refused(f"{obstacle(task)}: use tidegate.connect", reason="NOT_REACHABLE")
    if job is None:
        job = secrets.token_hex(8)
    else:
        task.service.drop_uploads(task.id, job)
    rows = frame
    if order_by:
        rest = [column.name for column in columns if column.name not in order_by]
        rows = rows.selectExpr(*[quoted(column.name) for column in columns])
        rows = rows.orderBy(*map(quoted, (*order_by, *rest)))
    push = Push(task.access, task.id, job, numbered_schema(columns))
    try:
        sent = rows.selectExpr(*numbered(columns)).mapInArrow(push, _SENT_DDL).collect()
        for row in sent:
            if row["reason"]:
                raise _refusal(row["refused"], row["reason"])
    except BaseException:
        task.service.drop_uploads(task.id, job)
        raise
    units = tuple(
        Unit(path=row["path"], format="inline", groups=None, rows=row["rows"], stored=row["stored"])
        for row in sorted(sent, key=lambda row: (row["partition"], row["index"]))
    )
    return Pushed(job, units)


def _refusal(text: str, reason: str) -> TidegateError:
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, Refused)
    return kind(f"an executor's upload was refused: {message}", reason=reason)
