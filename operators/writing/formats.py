"""The formats that `Write` writes, by name."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ...proto.errors import InvalidRequest


class Writer(Protocol):
    """A file being written, a block after the other. `close` ends the file, not what it is written to."""

    def write(self, block: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


Open: TypeAlias = Callable[[BinaryIO, pa.Schema], Writer]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFormat:
    name: str
    ending: str
    open: Open

    def check(self, schema: pa.Schema) -> None:
        """InvalidRequest where a column is of a type that the format has not."""
        for field in schema:
            one = pa.schema([field.with_nullable(True)])
            try:
                writer = self.open(io.BytesIO(), one)
                writer.write(pa.record_batch([pa.nulls(1, field.type)], schema=one))
                writer.close()
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise InvalidRequest(
                    f"{self.name} files cannot hold the column {field.name!r}, which is {field.type}: cast it, or take "
                    f"another format ({', '.join(WRITE_FORMATS)})",
                    reason="UNSUPPORTED_COLUMN",
                ) from error


class _Parquet:
    """One row group a block."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")

    def write(self, block: pa.RecordBatch) -> None:
        self._writer.write_batch(block)

    def close(self) -> None:
        self._writer.close()


class _Batches:
    """Formats for which Arrow has a writer of batches."""

    def __init__(self, writer: Any) -> None:  # Arrow's own have no common type
        self._writer = writer

    def write(self, block: pa.RecordBatch) -> None:
        self._writer.write_batch(block)

    def close(self) -> None:
        self._writer.close()


def _arrow(sink: BinaryIO, schema: pa.Schema) -> Writer:
    return _Batches(pa.ipc.new_file(sink, schema))


def _csv(sink: BinaryIO, schema: pa.Schema) -> Writer:
    return _Batches(pyarrow.csv.CSVWriter(sink, schema))


WRITE_FORMATS: Final[Mapping[str, WriteFormat]] = {
    "parquet": WriteFormat(name="parquet", ending=".parquet", open=_Parquet),
    "arrow": WriteFormat(name="arrow", ending=".arrow", open=_arrow),
    "csv": WriteFormat(name="csv", ending=".csv", open=_csv),
}
