"""ORC: some rows of a stripe are read at a time, as many as take `BATCH_BYTES` by the bytes of the file. A piece is a
whole file.

Files are decoded in processes of their own (`orc_readers`): a damaged one may end the process that it is read in.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import PieceFiles
from .orc_readers import DecodedFile


class Orc:
    name = "orc"
    endings = (".orc",)
    ranges = False
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> tuple[FilePiece, ...]:  # noqa: ARG002
        with closing(DecodedFile(filesystem.descriptor)) as file:
            return (replace(piece, schema=file.schema, row_count=file.row_count, file_rows=file.row_count),)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> OrcReader:  # noqa: ARG002
        return OrcReader(filesystem.descriptor)


class OrcReader:
    def __init__(self, descriptor: int) -> None:
        self._file = DecodedFile(descriptor)
        self.schema = self._file.schema

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        at = 0
        for batch in self._file.batches(indices):
            yield at, batch
            at += batch.num_rows
        if at != self._file.row_count:
            raise pa.ArrowInvalid(f"its stripes have {at:,} rows, and its footer says {self._file.row_count:,}")

    def close(self) -> None:
        self._file.close()
