"""JSON, one object a line, typed by the plan's columns: nothing is guessed from the data.

What an object lacks is null, what the plan does not name is skipped. Dates and times of day are text in ISO 8601.
A piece is a whole file, which may be compressed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as kinds
from pyarrow.fs import FileSystem

from ..batches import batch_of
from ..column import Column
from ..matching import same_name
from ..piece import FilePiece
from .text_blocks import within_blocks

_BLOCK_BYTES = 8 << 20
_TOO_LONG = "a row is longer than 8 MiB"


class Json:
    name = "json"
    endings = (".json", ".ndjson", ".jsonl")
    ranges = False
    compressed = True

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: FileSystem) -> tuple[FilePiece, ...]:  # noqa: ARG002
        """A text file tells nothing before it is read."""
        return (piece,)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: FileSystem) -> JsonReader:
        return JsonReader(piece, columns, filesystem)


class JsonReader:
    """`schema` has the wanted columns under the names that the first object gives them, where it has them."""

    def __init__(self, piece: FilePiece, columns: Sequence[Column], filesystem: FileSystem) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._open: pa.NativeFile | None = None
        first = self._first()
        self._empty = first is None
        keys = list(first or {})
        folders = [key for key, _ in piece.partition]
        fields = []
        for column in columns:
            index = same_name(column.name, keys)
            # What neither the first object nor a folder has, later objects may have.
            if index is not None or same_name(column.name, folders) is None:
                name = keys[index] if index is not None else column.name
                number = column.number_or_text and isinstance((first or {}).get(name), int)
                fields.append(pa.field(name, pa.int64() if number else column.type))
        self.schema = pa.schema(fields)

    def _first(self) -> dict[str, object] | None:
        """The first object; None where the file has none."""
        with self._stream() as stream:
            block = stream.read(_BLOCK_BYTES)
        if not block.strip():
            return None
        line, end, _ = block.lstrip().partition(b"\n")
        if len(line) == _BLOCK_BYTES and not end:
            raise pa.ArrowInvalid(_TOO_LONG)
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise pa.ArrowInvalid(f"the first line is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise pa.ArrowInvalid("the first line is no JSON object")
        return found

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        if self._empty:
            return
        self._open = self._stream()
        wanted = pa.schema([self.schema.field(i) for i in indices])
        reader = partial(
            pj.open_json,
            self._open,
            read_options=pj.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([field.with_type(_parsed(field.type)) for field in wanted]),
                unexpected_field_behavior="ignore",
            ),
        )
        at = 0
        for batch in within_blocks(reader, _TOO_LONG):
            arrays = [_typed(batch.column(field.name), field.type) for field in wanted]
            rows = batch_of(arrays, batch.num_rows, wanted)
            yield at, rows
            at += batch.num_rows

    def _stream(self) -> pa.NativeFile:
        return self._filesystem.open_input_stream(self._piece.path, compression="detect")

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def _parsed(type_: pa.DataType) -> pa.DataType:
    """Arrow reads dates and times of day as text only."""
    return pa.string() if kinds.is_date(type_) or kinds.is_time(type_) else type_


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type.equals(type_) else pc.cast(array, type_)
