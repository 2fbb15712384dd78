"""The forms of a split: a path, a `FileSplit`, an upload, or Arrow data in any form."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import pyarrow as pa

from .numbers import check_sources, check_text, check_watermark, checked_file
from .proto.arrow.arrow_ipc import sendable
from .proto.arrow.arrow_streams import with_a_stream
from .proto.arrow.levels import check_levels
from .proto.arrow.validation import validated
from .proto.compressed_files import without_codec
from .proto.errors import Exhausted, InvalidRequest
from .proto.values import MIB, FileFormat, FileSplit, InlineSplit, MissingColumns, Split
from .task_options import member

CHUNK_BYTES = 1 * MIB
INLINE_BYTES: Final = 16 * MIB
"""A split of more Arrow data than this travels as a file."""
_READ: Final[weakref.WeakSet[pa.RecordBatchReader]] = weakref.WeakSet()
"""The readers that splits were made of."""


class ArrowStream(Protocol):
    """An object with the Arrow C stream protocol: tables, readers, pandas and polars frames, DuckDB relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """An object with the Arrow C array protocol: record batches, struct arrays."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of the client's machine that travels to the server. Made by `tidegate.upload`."""

    path: Path
    format: FileFormat = ""

    def __iter__(self) -> Iterator[bytes]:
        """The file's bytes, from its beginning each time."""
        with self.path.open("rb") as file:
            yield from iter(lambda: file.read(CHUNK_BYTES), b"")


Rows: TypeAlias = str | os.PathLike[str] | FileSplit | InlineSplit | Upload | ArrowStream | ArrowArray


@dataclass(frozen=True, slots=True)
class Changes:
    """Data whose rows change a source of a continuous task.

    `column` of the data says how: a weight (+1 inserts a row, -1 deletes one, n is n copies), or one of insert, delete,
    update_preimage and update_postimage.

    >>> corrections = monday.slice(0, 1).append_column("op", pa.array(["delete"]))
    >>> with client.create_task(plan, mode="continuous") as task:
    ...     before = task.run_epoch({"sales": monday}).table()
    ...     print(task.run_epoch({"sales": tidegate.Changes(corrections, "op")}).table().to_pylist())
    [{'item': 'tea', 'total': 4, '_weight': 1}, {'item': 'tea', 'total': 7, '_weight': -1}]
    """

    data: Rows
    column: str = "_weight"


@dataclass(frozen=True, slots=True)
class MissingAsNull:
    """Data that may lack columns which the plan reads. A missing column is null in all rows, and no error.

    >>> task.run_epoch({"sales": tidegate.MissingAsNull(monday.select(["item"]))}).table().to_pylist()
    [{'item': 'cup', 'total': None}, {'item': 'tea', 'total': None}]
    """

    data: Rows | Changes


SplitLike: TypeAlias = Rows | Changes | MissingAsNull


class Uploader(Protocol):
    """Sends the files of a call ahead of it."""

    def __call__(self, name: str, data: Upload) -> str:
        """Send a file; its path on the server."""
        ...

    def new_folder(self) -> Path:
        """A folder for files to send. It stays until the call is answered."""
        ...


def upload(path: str | os.PathLike[str], *, format: FileFormat = "") -> Upload:  # noqa: A002 (FileSplit's word)
    """A file of this machine as a split or a table. The client sends the file to the server.

    The server keeps a split's file until its epoch is acknowledged, and a table's as long as the task. Paths given as
    plain strings are paths of the server.

    >>> task.run_epoch({"sales": tidegate.upload("sales.parquet")}).rows
    2
    """
    file = Path(path)
    if not os.path.isfile(file):
        raise InvalidRequest(f"there is no file {path} on the client's machine to upload", reason="FILE_NOT_FOUND")
    if not os.access(file, os.R_OK):
        raise InvalidRequest(
            f"{path} cannot be uploaded: this process has no permission to read the file", reason="FILE_NOT_FOUND"
        )
    return Upload(file, format)


def split(
    data: SplitLike,
    uploader: Uploader,
    *,
    watermark: int | None = None,
    change_column: str | None = None,
    missing_columns: MissingColumns | Literal["error", "null"] | None = None,
) -> Split:
    """The split as the service takes it. `uploader` sends a client's file and returns its path on the server."""
    built = _split(data, uploader)
    if watermark is not None:
        built = replace(built, watermark=watermark)
    if missing_columns is not None:
        built = replace(built, missing_columns=member("missing_columns", MissingColumns, missing_columns))
    if built.watermark is not None:
        check_watermark(built.watermark)
    if change_column is None:
        return built
    check_text("change_column", change_column)
    return replace(built, change_column=change_column)


def file_split(file: FileSplit) -> FileSplit:
    """The split, checked. `missing_columns` may be given by its value, as options are."""
    missing = file.missing_columns
    if missing is not None:
        file = replace(file, missing_columns=member("missing_columns", MissingColumns, missing))
    return checked_file(file)


def _split(data: Any, uploader: Uploader) -> Split:
    match data:
        case Changes():
            return split(data.data, uploader, change_column=data.column)
        case MissingAsNull():
            return split(data.data, uploader, missing_columns=MissingColumns.NULL)
        case FileSplit():
            return file_split(data)
        case InlineSplit():
            return _checked(data)
        case str() | os.PathLike():
            return checked_file(FileSplit(os.fsdecode(data)))
        case Upload():
            return FileSplit(uploader(f"upload{_ending(data.path)}", data), format=data.format)
        case pa.RecordBatch():
            return _checked(InlineSplit(schema=data.schema, batches=(data,)))
        case pa.Table():
            return _checked(InlineSplit(schema=data.schema, batches=tuple(data.to_batches())))
        case pa.RecordBatchReader():
            return _streamed(_reader(_unread(data)), uploader)
        case _ if hasattr(data, "__arrow_c_stream__"):  # checking for a protocol's methods takes ten times as long
            return _streamed(_reader(data), uploader)
        case _ if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return _checked(InlineSplit(schema=batch.schema, batches=(batch,)))
        case _:
            raise InvalidRequest(
                "a split must be a path, tidegate.FileSplit, tidegate.upload(path), Arrow data (anything with "
                "__arrow_c_stream__), or tidegate.Changes or tidegate.MissingAsNull of one of these, not "
                f"{type(data).__name__}",
                reason="NOT_A_SPLIT",
            )


def _checked(split: InlineSplit) -> InlineSplit:
    """The split itself, after checking that its rows are what their schema says, since they are read or sent."""
    check_levels(split.schema)
    try:
        for batch in split.batches:
            validated(batch)
    except pa.ArrowException as error:
        raise InvalidRequest(
            f"the rows of a split are not valid Arrow data: {error}", reason="MALFORMED_ARROW"
        ) from error
    return split


def _unread(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The reader, unless an earlier split has read it: it would have no rows any more, and the split none, either."""
    if reader in _READ:
        raise InvalidRequest(
            "a RecordBatchReader hands its rows out once, and an earlier call has read this one, also if the call was "
            "refused: make a new reader of the same rows, or give a table, which can be given again",
            reason="NOT_A_SPLIT",
        )
    _READ.add(reader)
    return reader


def _reader(stream: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(with_a_stream(stream))
    except pa.ArrowInvalid as error:  # of more levels than Arrow hands on from one program to another, for example
        raise InvalidRequest(f"Arrow cannot read the rows of a split: {error}", reason="MALFORMED_ARROW") from error


def _streamed(reader: pa.RecordBatchReader, uploader: Uploader) -> Split:
    """The rows of a stream. Many rows are sent ahead as a file, so that they are never in memory all at once."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        held.append(batch)
        size += pa.ipc.get_record_batch_size(batch)
        if size > INLINE_BYTES:
            path = uploader.new_folder() / "inline.arrow"
            return _sent(reader.schema, chain(_taken(held), reader), path, uploader)
    return _checked(InlineSplit(schema=reader.schema, batches=tuple(held)))


def _taken(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.pop(0)


def _sent(schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: Path, uploader: Uploader) -> Split:
    """If the task has no room for a file, its memory may have: then the rows go inline, and the service decides."""
    with pa.ipc.new_stream(str(path), sendable(InlineSplit(schema=schema, batches=())).schema) as writer:
        for batch in batches:
            for part in sendable(_checked(InlineSplit(schema=schema, batches=(batch,)))).batches:
                writer.write_batch(part)
    try:
        return FileSplit(uploader(path.name, Upload(path)), format="inline")
    except Exhausted as full:
        if full.reason != "UPLOAD_TOO_LARGE":
            raise
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return InlineSplit(schema=reader.schema, batches=tuple(reader))


def _ending(path: Path) -> str:
    """The suffixes that tell a file's format: .parquet, .csv.gz."""
    _, codec = without_codec(path.name)
    return path.suffix if codec is None else "".join(path.suffixes[-2:])


def several(data: SplitLike | Sequence[SplitLike]) -> Sequence[SplitLike]:
    """One split or several, as a list."""
    return data if isinstance(data, (list, tuple)) else [data]  # type: ignore[list-item]


def by_source(splits: Mapping[str, SplitLike | Sequence[SplitLike]]) -> Mapping[str, Sequence[SplitLike]]:
    """The splits of each source as a list."""
    if not isinstance(splits, Mapping):
        raise InvalidRequest(
            f"splits must be given by source name, as {{'sales': 'sales.parquet'}}, not as {splits!r:.80}",
            reason="NOT_A_SPLIT",
        )
    check_sources(splits)
    return {name: several(data) for name, data in splits.items()}
