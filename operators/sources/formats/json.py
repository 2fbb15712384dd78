"""JSON, one object a line, typed by the plan's columns: nothing is guessed from the data.

A key that an object lacks is null; a key that the plan does not name is skipped. A column that no object has is no
column of the file. Where that would be an error, the whole file is searched for an object that has the key. Dates and
times of day are text in ISO 8601. A piece is a whole file, which may be compressed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as kinds

from ....proto.arrow.validation import each_validated
from ....proto.values import MissingColumns
from ...core.batches import batch_of
from ...core.column import Column
from ...core.piece import FilePiece
from ..file_versions import Files
from .matching import Names
from .text_blocks import CheckedText, within_blocks

_BLOCK_BYTES = 8 << 20
_TOO_LONG = "a row is longer than 8 MiB"


class Json:
    name = "json"
    endings = (".json", ".ndjson", ".jsonl")
    ranges = False
    compressed = True

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> tuple[FilePiece, ...]:  # noqa: ARG002
        """Return the piece as it is: a text file tells nothing before it is read."""
        return (piece,)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> JsonReader:
        return JsonReader(piece, columns, filesystem)


class JsonReader:
    """A reader of a JSON file. `schema` has the wanted columns, under the names of the first object where that has
    them, and the first object's other keys without a type.
    """

    def __init__(self, piece: FilePiece, columns: Sequence[Column], filesystem: Files) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._open: pa.NativeFile | None = None
        first = self._first()
        self._empty = first is None
        keys = list(first or {})
        names, folders = Names(keys), Names([key for key, _ in piece.partition])
        fields = []
        for column in columns:
            index = names.position(column.name)
            if index is not None or (folders.position(column.name) is None and self._may_have(column.name)):
                name = keys[index] if index is not None else column.name
                number = column.number_or_text and isinstance((first or {}).get(name), int)
                fields.append(pa.field(name, pa.int64() if number else column.type))
        known = {field.name for field in fields}
        others = [pa.field(key, pa.null()) for key in keys if key not in known]
        self.schema = pa.schema(fields + others)

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
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise pa.ArrowInvalid(f"the first line is no JSON: {error}") from error
        if not isinstance(document, dict):
            raise pa.ArrowInvalid("the first line is no JSON object")
        return document

    def _may_have(self, name: str) -> bool:
        """True where a later object may have a key that the first one lacks."""
        if self._empty or self._piece.missing_columns is MissingColumns.NULL:
            return True
        written = {json.dumps(name, ensure_ascii=ascii_alone).encode() for ascii_alone in (True, False)}
        with self._stream() as stream:
            return any(_has_key(line, name) for line in _lines_with(stream, written))

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        if self._empty:
            return
        # Arrow takes the byte 0 for the end of a block, and leaves out the text behind it.
        self._open = pa.PythonFile(CheckedText(self._stream(), refused=b"\0"), mode="r")
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
        for batch in each_validated(within_blocks(reader, _TOO_LONG)):
            arrays = [_typed(batch.column(field.name), field.type) for field in wanted]
            rows = batch_of(arrays, batch.num_rows, wanted)
            yield at, rows
            at += batch.num_rows

    def _stream(self) -> pa.NativeFile:
        return self._filesystem.open_input_stream(self._piece.path, compression="detect")

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


def _lines_with(stream: pa.NativeFile, texts: Collection[bytes]) -> Iterator[bytes]:
    """The lines that contain one of these texts. Most other lines are not looked at."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        rest, end = rest + block, 0
        if not any(text in rest for text in texts):
            end = rest.rfind(b"\n") + 1
        while (after := rest.find(b"\n", end) + 1) > 0:
            line = rest[end:after]
            end = after
            if any(text in line for text in texts):
                yield line
        rest = rest[end:]
        if len(rest) > _BLOCK_BYTES:
            raise pa.ArrowInvalid(_TOO_LONG)
    if any(text in rest for text in texts):
        yield rest


def _has_key(line: bytes, name: str) -> bool:
    """True where the object of a line has the key, or the line is no object: the reader refuses that line."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return True
    return not isinstance(document, dict) or name in document


def _parsed(type_: pa.DataType) -> pa.DataType:
    """The type to parse a column as: text for dates and times of day, which Arrow reads in no other way."""
    return pa.string() if kinds.is_date(type_) or kinds.is_time(type_) else type_


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type.equals(type_) else pc.cast(array, type_)
