"""JSON, one object a line, typed by the plan's columns: nothing is guessed from the data.

A key that an object lacks is null; a key that the plan does not name is skipped. A column that no object has is no
column of the file. Where that would be an error, the whole file is searched for an object that has the key. Dates and
times of day are text in ISO 8601. A piece is a whole file, which may be compressed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types as kinds

from ....proto.values import MissingColumns
from ...core.batches import batch_of
from ...core.column import Column
from ...core.interrupts import look
from ...core.piece import FilePiece
from ...core.sizes import BATCH_BYTES, fixed_row_bytes
from ..file_versions import PieceFiles
from .format import OpenedAnew, RowTooLarge, numbered
from .matching import Names
from .text_blocks import CheckedText, counted_from, line_blocks, longest_row

#: About the bytes that are decoded at once.
_MOST: Final = 8 * BATCH_BYTES
#: A longer line is searched for its keys: Python's objects may take 60 times its bytes.
_SHORT: Final = 256 << 10
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:]|[^"{}\[\]:]++', re.DOTALL)
_LOOK_AT: Final = 1 << 14


class Json(OpenedAnew):
    name = "json"
    endings = (".json", ".ndjson", ".jsonl")
    ranges = False
    compressed = True

    def open(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> tuple[FilePiece, ...]:  # noqa: ARG002
        """Return the piece as it is: a text file tells nothing before it is read."""
        return (piece,)

    def read(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> JsonReader:
        return JsonReader(piece, columns, filesystem)


class JsonReader:
    """A reader of a JSON file. `schema` has the wanted columns, under the names of the first object where that has
    them, and the first object's other keys without a type.
    """

    def __init__(self, piece: FilePiece, columns: Sequence[Column], filesystem: PieceFiles) -> None:
        self._piece = piece
        self._filesystem = filesystem
        self._longest = longest_row(filesystem.largest, lists=any(kinds.is_nested(column.type) for column in columns))
        self._largest = filesystem.largest
        self._open: CheckedText | None = None
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
        with closing(self._text()) as text:
            block = next(line_blocks(text, self._longest), None)
        if block is None:
            return None
        line, _, _ = block.lstrip().partition(b"\n")
        try:
            return _object(line)
        except (ValueError, RecursionError) as error:
            raise pa.ArrowInvalid(f"the first line is not JSON: {error}") from error

    def _may_have(self, name: str) -> bool:
        """True where a later object may have a key that the first one lacks."""
        if self._empty or self._piece.missing_columns is MissingColumns.NULL:
            return True
        written = {json.dumps(name, ensure_ascii=ascii_alone).encode() for ascii_alone in (True, False)}
        with closing(self._text()) as text:
            return any(_has_key(line, name) for line in _lines_with(line_blocks(text, self._longest), written))

    def batches(self, indices: Sequence[int]) -> Generator[tuple[int, pa.RecordBatch]]:
        if self._empty:
            return
        # Arrow takes the byte 0 for the end of a block, and leaves out the text behind it.
        text = self._open = self._text(refused=b"\0")
        wanted = pa.schema([self.schema.field(i) for i in indices])
        parser = _Parser(wanted, self._largest)
        at = 0
        for block in line_blocks(text, self._longest):
            for batch in parser.batches(block, at):
                yield from numbered(at, batch)
                at += batch.num_rows

    def _text(self, refused: bytes = b"") -> CheckedText:
        return CheckedText(self._stream(), refused)

    def _stream(self) -> pa.NativeFile:
        return self._filesystem.open_input_stream(self._piece.path)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()


class _Parser:
    """A parser of blocks of lines. An object of two bytes has a value in every column, so a block is cut where its
    objects may take more than `_MOST` bytes.
    """

    def __init__(self, wanted: pa.Schema, largest: int) -> None:
        self._wanted = wanted
        self._parsed = pa.schema([field.with_type(_parsed(field.type)) for field in wanted])
        self._width = sum(_least_bytes(type_) for type_ in wanted.types)
        self._has_objects = any(kinds.is_nested(type_) for type_ in wanted.types)
        self._largest = largest

    def batches(self, lines: bytes, first: int) -> Iterator[pa.RecordBatch]:
        """The rows of these lines, of which the first is row `first` of the file."""
        if self._most_bytes(lines) > _MOST:
            middle = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
            if 0 < middle < len(lines):
                for part in (lines[:middle], lines[middle:]):
                    for batch in self.batches(part, first) if not part.isspace() else ():
                        yield batch
                        first += batch.num_rows
                return
            if sum(token == b"{" for token in _tokens(lines)) * self._width > max(self._largest, _MOST):
                raise RowTooLarge(
                    "a line has so many objects that their values take more than the task's memory_limit: raise "
                    "memory_limit"
                )
        yield from self._decoded(lines, first)

    def _most_bytes(self, lines: bytes) -> int:
        objects = lines.count(b"{") + (lines.count(b"null") if self._has_objects else 0)
        return objects * self._width

    def _decoded(self, lines: bytes, first: int) -> Iterator[pa.RecordBatch]:
        try:
            table = pj.read_json(
                pa.BufferReader(lines),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self._parsed, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid as error:
            raise counted_from(error, first) from error
        for batch in table.combine_chunks().to_batches():
            arrays = [_typed(batch.column(field.name), field.type) for field in self._wanted]
            yield batch_of(arrays, batch.num_rows, self._wanted)


def _least_bytes(type_: pa.DataType) -> int:
    """The bytes that a value takes at least, null or not."""
    if type_.num_fields:
        return 4 + sum(_least_bytes(type_.field(index).type) for index in range(type_.num_fields))
    return fixed_row_bytes(pa.schema([("", type_)])) or 4


def _lines_with(blocks: Iterable[bytes], texts: Collection[bytes]) -> Iterator[bytes]:
    """The lines that contain one of these texts. Most other lines are not looked at."""
    for block in blocks:
        at = 0 if any(text in block for text in texts) else len(block)
        while at < len(block):
            start, at = at, block.find(b"\n", at) + 1 or len(block)
            line = block[start:at]
            if any(text in line for text in texts):
                yield line


def _has_key(line: bytes, name: str) -> bool:
    """True where the object of a line has the key, or the line is no object: the reader refuses that line."""
    try:
        return name in _object(line)
    except (ValueError, RecursionError):
        return True


def _object(line: bytes) -> dict[str, object]:
    """The object of a line; of a long line its keys alone, and those values that are whole numbers."""
    if len(line) > _SHORT:
        return dict(_members(line))
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    return document


def _members(line: bytes) -> Iterator[tuple[str, object]]:
    """The keys of the object of a line, and those values that are whole numbers."""
    depth, before, key = 0, b"", ""
    for token in _tokens(line):
        if token == b":" and depth == 1:
            key = json.loads(before)
            yield key, None
        elif before == b":" and depth == 1 and (number := token.strip(b", \t\r\n")).lstrip(b"-").isdigit():
            yield key, int(number)
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        before = token if not token.isspace() else before
    if depth or not line.lstrip().startswith(b"{"):
        raise ValueError("it is no object")


def _tokens(line: bytes) -> Iterator[bytes]:
    """The texts, brackets and colons of a line, and what is between them."""
    for number, token in enumerate(_TOKEN.finditer(line)):
        if number % _LOOK_AT == 0:
            look()
        yield token[0]


def _parsed(type_: pa.DataType) -> pa.DataType:
    """The type to parse a column as: text for dates and times of day, which Arrow reads in no other way."""
    return pa.string() if kinds.is_date(type_) or kinds.is_time(type_) else type_


def _typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type.equals(type_) else pc.cast(array, type_)
