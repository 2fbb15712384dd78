"""Files of Arrow rows that channels read like rows of a call."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pyarrow as pa

from ....operators.core.piece import FilePiece, FileVersion
from ....proto.errors import Exhausted
from ....proto.values import MissingColumns
from ...runtime.batch_store import has_dictionary


class InlineFile:
    """A file that is written batch by batch. Once it is closed, `piece` stands for its rows."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._schema = schema
        self._starts: list[int] = []
        self._rows = 0
        new = pa.ipc.new_stream if has_dictionary(schema) else pa.ipc.new_file
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = new(self._sink, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()
        self._sink.close()

    def write(self, batch: pa.RecordBatch) -> None:
        self._starts.append(self._rows)
        self._rows += batch.num_rows
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise Exhausted(
                f"{self.path} cannot be written: {error}; make room there", reason="SPILL_FAILED"
            ) from error

    def piece(
        self, origin: str, *, change_column: str | None = None, missing_columns: MissingColumns | None = None
    ) -> FilePiece:
        status = self.path.stat()
        return FilePiece(
            path=str(self.path),
            format="inline",
            version=FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns),
            origin=origin,
            schema=self._schema,
            rows=(0, self._rows),
            row_count=self._rows,
            file_rows=self._rows,
            batch_starts=tuple(self._starts),
            change_column=change_column,
            missing_columns=missing_columns,
        )
