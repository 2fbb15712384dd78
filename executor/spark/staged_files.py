"""Rows in the staging place, where the service and all executors see them: results, kept rows, rows of a call."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from ...operators.core.piece import FilePiece, InlinePiece
from ...operators.core.streams import BatchStream
from ...operators.writing.staged_write import WrittenPart
from ...proto.arrow.validation import each_validated
from ...proto.dataset import Keyed
from ...proto.errors import ExecutionError, Exhausted, TidegateError
from ..datasets.dataset_files import ChannelFiles
from ..datasets.write_dataset import Layout, file_writer
from .worker import task_failures as failures
from .worker.piece_files import InlineFile
from .worker.stage import packed, unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A channel's rows in a file, and the error that ends them.

    If the rows are a Dataset's, `layout` says which files the folder `path` has. If they are a table's, `part` is the
    file in the table's folder, `counted` are the bytes of the rows in memory, and the file has the rows to hand on.
    """

    pipeline: int
    channel: int
    path: str
    rows: int
    size: int
    error: str = ""
    reports: bytes = b""
    layout: str = ""
    part: WrittenPart | None = None
    counted: int = 0

    def written(self) -> bytes:
        return json.dumps({**asdict(self), "reports": self.reports.decode()}).encode()

    @staticmethod
    def read(payload: bytes) -> Result:
        fields = json.loads(payload)
        part = None if fields["part"] is None else WrittenPart(**fields["part"])
        return Result(**{**fields, "reports": fields["reports"].encode(), "part": part})


def write_dataset(
    folder: Path,
    schema: pa.Schema,
    rows: Generator[pa.RecordBatch],
    *,
    keyed: Keyed | None,
    pipeline: int,
    channel: int,
) -> Result:
    """Write the rows as files of a Dataset, in a folder of this attempt alone."""
    path = folder / f"dataset-{uuid.uuid4().hex}"
    path.mkdir(mode=0o700)
    writer = file_writer(schema, ChannelFiles(path), keyed)
    counted = BatchStream(schema, rows)
    layout, error = Layout(tables=()), b""
    with closing(counted):
        try:
            writer.add_all(counted)
            layout = writer.end()
        except TidegateError as failure:
            error = failures.written(failure)
    return Result(
        pipeline=pipeline,
        channel=channel,
        path=str(path),
        rows=counted.rows,
        size=counted.bytes,
        error=error.decode(),
        layout=base64.b64encode(packed(layout)).decode(),
    )


def layout_of(result: Result) -> Layout:
    layout: Layout = unpacked(base64.b64decode(result.layout))
    return layout


def write_result(
    folder: Path, schema: pa.Schema, rows: Generator[pa.RecordBatch], *, pipeline: int, channel: int
) -> Result:
    """Write the rows to a file of this attempt alone. An error in the plan's data ends them."""
    path = folder / f"rows-{uuid.uuid4().hex}.arrow"
    counted = BatchStream(schema, rows)
    error = b""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        try:
            with closing(counted):
                for batch in counted:
                    if batch.num_rows:
                        _write(writer, batch)
        except TidegateError as failure:
            error = failures.written(failure)
    return Result(
        pipeline=pipeline,
        channel=channel,
        path=str(path),
        rows=counted.rows,
        size=counted.bytes,
        error=error.decode(),
    )


def _write(writer: pa.RecordBatchStreamWriter, batch: pa.RecordBatch) -> None:
    try:
        writer.write_batch(batch)
    except OSError as error:
        raise Exhausted(
            f"writing to the staging place failed: {error}; give the place room", reason="SPILL_FAILED"
        ) from error


def in_order(results: Iterable[Result]) -> Iterator[pa.RecordBatch]:
    """The rows, channel after channel. Each file is removed once it was read."""
    for result in results:
        with closing(StagedRows(result.path).read()) as rows:
            yield from rows
        Path(result.path).unlink(missing_ok=True)
        if result.error:
            raise failures.read(result.error.encode())


class StagedRows:
    """Rows of a file, read by mapping it."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def schema(self) -> pa.Schema:
        with pa.memory_map(self._path) as source, pa.ipc.open_stream(source) as reader:
            return reader.schema

    def read(self) -> Generator[pa.RecordBatch]:
        try:
            with pa.memory_map(self._path) as source, pa.ipc.open_stream(source) as reader:
                yield from each_validated(reader)
        except (pa.ArrowException, OSError) as error:
            raise ExecutionError(
                f"{self._path} of the staging place cannot be read: {error}", reason="STAGING_LOST"
            ) from error


def staged(piece: InlinePiece, folder: Path) -> FilePiece:
    """The rows of a call as a file, which every channel may read."""
    with InlineFile(folder / f"call-{uuid.uuid4().hex}.arrow", piece.schema) as file:
        for batch in piece.batches():
            file.write(batch)
    return file.piece(piece.origin, change_column=piece.change_column, missing_columns=piece.missing_columns)
