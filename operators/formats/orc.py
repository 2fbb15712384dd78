"""ORC, read a stripe at a time; a piece is a whole file."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import orc

from ...proto.validation import validated, validated_schema
from ..column import Column
from ..file_versions import Files
from ..piece import FilePiece
from .format import numbered


class Orc:
    name = "orc"
    endings = (".orc",)
    ranges = False
    compressed = False

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:  # noqa: ARG002
        with filesystem.open_input_file(piece.path) as file:
            found = orc.ORCFile(file)
            return (
                replace(piece, schema=validated_schema(found.schema), row_count=found.nrows, file_rows=found.nrows),
            )

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> OrcReader:  # noqa: ARG002
        return OrcReader(piece, filesystem)


class OrcReader:
    def __init__(self, piece: FilePiece, filesystem: Files) -> None:
        self._file = filesystem.open_input_file(piece.path)
        try:
            self._orc = orc.ORCFile(self._file)
            self.schema = validated_schema(self._orc.schema)
        except BaseException:
            self._file.close()
            raise

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        names = [self.schema.field(i).name for i in indices]
        at = 0
        for i in range(self._orc.nstripes):
            # A name with a dot also selects nested columns, so the columns are picked again by their own names.
            stripe = validated(self._orc.read_stripe(i, columns=names or self.schema.names[:1])).select(names)
            yield from numbered(at, stripe)
            at += stripe.num_rows
        if at != self._orc.nrows:
            raise pa.ArrowInvalid(f"its stripes have {at:,} rows and not the {self._orc.nrows:,} that its footer says")

    def close(self) -> None:
        self._file.close()
