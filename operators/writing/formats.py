"""The formats that `Write` writes, by name."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from ...proto.errors import ExecutionError, InvalidRequest
from ..arrays.behind_nulls import cleared
from ..arrays.retype import NullInside, retype
from ..core.batches import batch_of


class Writer(Protocol):
    """A writer of a file, block by block. `close` ends the file, and does not close its target."""

    def write(self, block: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


class Column(NamedTuple):
    """A column of a file. It has no type where the file's format has none."""

    name: str
    type: pa.DataType | None


Open: TypeAlias = Callable[[BinaryIO, pa.Schema], Writer]
Columns: TypeAlias = Callable[[BinaryIO], Sequence[Column]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFormat:
    """A format of written files. `columns` reads the columns of an existing file. Only a format with `rows_alone` can
    have rows without columns.
    """

    name: str
    ending: str
    open: Open
    columns: Columns
    rows_alone: bool = False

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidRequest` where the format has no type for a column, or the schema has no column and the format
        needs one.
        """
        if not len(schema) and not self.rows_alone:
            formats = ", ".join(format_.name for format_ in WRITE_FORMATS.values() if format_.rows_alone)
            raise InvalidRequest(
                f"{self.name} files cannot hold rows without columns: take another format ({formats})",
                reason="UNSUPPORTED_COLUMN",
            )
        for field in schema:
            one = pa.schema(
                [field.with_nullable(True)]
            )  # a null of the type: CSV checks a type only where there is a row
            try:
                writer = self.open(io.BytesIO(), one)
                writer.write(pa.record_batch([pa.nulls(1, field.type)], schema=one))
                writer.close()
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise InvalidRequest(
                    f"{self.name} files cannot hold the column {field.name!r}, which is {field.type}: cast the "
                    f"column, or take another format ({', '.join(WRITE_FORMATS)})",
                    reason="UNSUPPORTED_COLUMN",
                ) from error


class _Parquet:
    """The format Parquet: a row group for each block."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")

    def write(self, block: pa.RecordBatch) -> None:
        # Arrow's writer refuses nulls of a required field even below a null.
        columns = [_required(field, column) for field, column in zip(block.schema, block.columns, strict=True)]
        self._writer.write_batch(batch_of(columns, block.num_rows, block.schema))

    def close(self) -> None:
        self._writer.close()


def _required(field: pa.Field, column: pa.Array) -> pa.Array:
    try:
        return retype(column, column.type)
    except NullInside as error:
        raise ExecutionError(f"column {field.name!r}: {error}", reason="NULL_IN_REQUIRED_COLUMN") from error


class _Batches:
    """A format for which Arrow has a writer of batches."""

    def __init__(self, writer: Any) -> None:  # Arrow's own have no common type
        self._writer = writer

    def write(self, block: pa.RecordBatch) -> None:
        self._writer.write_batch(cleared(block))

    def close(self) -> None:
        self._writer.close()


class _Csv(_Batches):
    """The format CSV. Arrow writes moments of other years as texts that no reader takes for moments."""

    def write(self, block: pa.RecordBatch) -> None:
        for field, column in zip(block.schema, block.columns, strict=True):
            if _leaves_years_of_four_digits(column):
                raise ExecutionError(
                    f"column {field.name!r} has a moment outside of the years 0 to 9999, which CSV does not hold: take "
                    "another format (parquet, arrow), or cast the column to a text",
                    reason="WRITE_FAILED",
                )
        super().write(block)


def _leaves_years_of_four_digits(column: pa.Array) -> bool:
    match column.type:
        case pa.TimestampType() as type_:
            scale = _UNITS_OF_A_DAY[type_.unit]
        case type_ if pa.types.is_date32(type_):
            scale = 1
        case _:
            return False
    bounds = pc.min_max(column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())).as_py()
    return bounds["min"] is not None and not _FIRST_DAY * scale <= bounds["min"] <= bounds["max"] < _END_DAY * scale


_UNITS_OF_A_DAY: Final = {unit: 86_400 * size for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))}
_FIRST_DAY: Final = -719_528
_END_DAY: Final = 2_932_897
"""The days from 1970 to the years 0 and 10000."""


def _arrow(sink: BinaryIO, schema: pa.Schema) -> Writer:
    return _Batches(pa.ipc.new_file(sink, schema))


def _csv(sink: BinaryIO, schema: pa.Schema) -> Writer:
    return _Csv(pyarrow.csv.CSVWriter(sink, schema))


def _parquet_columns(source: BinaryIO) -> Sequence[Column]:
    return [Column(field.name, field.type) for field in pyarrow.parquet.read_schema(source)]


def _arrow_columns(source: BinaryIO) -> Sequence[Column]:
    return [Column(field.name, field.type) for field in pa.ipc.open_file(source).schema]


def _csv_columns(source: BinaryIO) -> Sequence[Column]:
    """The names in the first line."""
    with pyarrow.csv.open_csv(source) as reader:
        return [Column(name, None) for name in reader.schema.names]


WRITE_FORMATS: Final[Mapping[str, WriteFormat]] = {
    "parquet": WriteFormat(name="parquet", ending=".parquet", open=_Parquet, columns=_parquet_columns),
    "arrow": WriteFormat(name="arrow", ending=".arrow", open=_arrow, columns=_arrow_columns, rows_alone=True),
    "csv": WriteFormat(name="csv", ending=".csv", open=_csv, columns=_csv_columns),
}
