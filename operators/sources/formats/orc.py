"""ORC: some rows of a stripe are read at a time, as many as take 2 MiB by the bytes of the file and by the types of the
columns, and fewer where these take more than the memory for decoding. A piece is a whole file.

Files are decoded in processes of their own (`orc_readers`): a damaged one may end the process that it is read in.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import PieceFiles
from .format import OpenedAnew, PartTooLarge, RowTooLarge
from .orc_frames import FOOTER
from .orc_readers import DecodedFile, OutOfMemory

#: The part of a task's memory limit that a process may take to decode a file, beside what it starts with.
_FRACTION: Final = 4
_LEAST: Final = 128 << 20
_MOST: Final = 4 << 30


class Orc(OpenedAnew):
    name = "orc"
    endings = (".orc",)
    ranges = False
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> tuple[FilePiece, ...]:  # noqa: ARG002
        with closing(_opened(filesystem)) as file:
            return (replace(piece, schema=file.schema, row_count=file.row_count, file_rows=file.row_count),)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> OrcReader:  # noqa: ARG002
        return OrcReader(filesystem)


class OrcReader:
    def __init__(self, files: PieceFiles) -> None:
        self._memory = min(max(_LEAST, files.largest // _FRACTION), _MOST)
        self._file = _opened(files)
        self.schema = self._file.schema

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        at = 0
        try:
            for batch in self._file.batches(indices, self._memory):
                yield at, batch
                at += batch.num_rows
        except OutOfMemory as error:
            raise RowTooLarge(
                f"a row behind the first {at:,}, or a dictionary of its stripe, takes more than {self._memory:,} bytes "
                "to decode. Decoding an ORC file may take a quarter of the task's memory_limit, and "
                f"{_LEAST:,} bytes in any case: raise memory_limit"
            ) from error
        if at != self._file.row_count:
            raise pa.ArrowInvalid(f"its stripes have {at:,} rows, and its footer says {self._file.row_count:,}")

    def close(self) -> None:
        self._file.close()


def _opened(files: PieceFiles) -> DecodedFile:
    try:
        return DecodedFile(files.descriptor)
    except OutOfMemory as error:
        raise PartTooLarge(
            "the footer, which has the least and the greatest values of columns, takes more than "
            f"{FOOTER:,} bytes to decode: write shorter values"
        ) from error
