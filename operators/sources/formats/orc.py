"""ORC: some rows of a stripe are read at a time, as many as take `BATCH_BYTES` by the bytes of the file. A piece is a
whole file.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

from ....proto.arrow.validation import each_validated, validated_schema
from ...core.column import Column
from ...core.piece import FilePiece
from ...core.sizes import BATCH_BYTES, rows_within
from ..file_versions import Files
from .format import BATCH_ROWS, numbered


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
        each = self._orc.content_length // max(self._orc.nrows, 1)
        # pyarrow's own reader of ORC files decodes whole stripes.
        fragment = ds.OrcFileFormat().make_fragment(self._file)
        read = fragment.scanner(
            columns=names or self.schema.names[:1],
            batch_size=rows_within(BATCH_BYTES, each, BATCH_ROWS),
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
        at = 0
        for batch in each_validated(read.to_batches()):
            yield from numbered(at, batch.select(names))
            at += batch.num_rows
        if at != self._orc.nrows:
            raise pa.ArrowInvalid(f"its stripes have {at:,} rows and not the {self._orc.nrows:,} that its footer says")

    def close(self) -> None:
        self._file.close()
