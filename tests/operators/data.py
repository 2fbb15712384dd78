"""Builders for what these tests feed and read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.operators.core.column import Column
from tidegate.operators.core.operator import Operator
from tidegate.operators.core.piece import FilePiece, Piece
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.duckdb.statement_inputs import StreamSource
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import expand, open_pieces
from tidegate.proto.values import FileSplit, MissingColumns

Rows = list[dict[str, object]]


def column(name: str, type_: pa.DataType, *, nullable: bool = True) -> Column:
    return Column(name=name, type=type_, nullable=nullable)


def stream(table: pa.Table, rows: int | None = None) -> BatchStream:
    """The table as a stream, in batches of `rows`."""
    return BatchStream(table.schema, table.to_batches(max_chunksize=rows))


def rows_of(batches: Iterable[pa.RecordBatch]) -> Rows:
    return [row for batch in batches for row in batch.to_pylist()]


def run(operator: Operator, *tables: pa.Table, rows: int | None = None) -> Rows:
    """One epoch's rows."""
    return rows_of(operator.run([stream(table, rows) for table in tables]))


def over_streams(
    instance: Instance, sql: str, schema: pa.Schema, *tables: pa.Table, size_class: int = 1_000, strict: bool = True
) -> Fragment:
    """A fragment whose SQL calls its inputs in0, in1, ..."""
    sources = [
        StreamSource(relation=f"in{i}", schema=table.schema, size_class=size_class) for i, table in enumerate(tables)
    ]
    return Fragment(sql, schema=schema, instance=instance, streams=sources, strict=strict, plan_path="relations[0]")


def write(path: Path, table: pa.Table, *, row_group_size: int = 1_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def pieces_of(
    path: os.PathLike[str],
    root: Path,
    columns: Sequence[Column] = (),
    rows: tuple[int, int] | None = None,
    missing_columns: MissingColumns | None = None,
) -> tuple[Piece, ...]:
    return open_pieces(expanded(path, root, rows, missing_columns), columns)


def expanded(
    path: os.PathLike[str],
    root: Path,
    rows: tuple[int, int] | None = None,
    missing_columns: MissingColumns | None = None,
) -> tuple[FilePiece, ...]:
    split = FileSplit(path=os.fspath(path), rows=rows, missing_columns=missing_columns)
    return expand(split, [str(root)], "split 1 of source 't'")


def scanned(columns: Sequence[Column], pieces: Sequence[Piece]) -> Rows:
    scan = Scan("t", columns)
    scan.assign("t", pieces)
    return rows_of(scan.run(()))
