"""Positions and row counts of the record batches of an Arrow file or stream, from their metadata alone.

pyarrow reads a batch only with (columns of) its body. The footer of a file says where each batch's metadata lies; in a
stream each message says where the next one lies. So a few hundred bytes are read for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ....proto.arrow.flatbuffers import field, root, table

_END: Final = 10  # the footer's length and the magic
_BLOCK: Final = 24  # offset, metadata's length (padded to 8 bytes), body's length
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_PREFIX: Final = 8
_SCHEMA: Final = 1
_RECORD_BATCH: Final = 3
_BIG_ENDIAN: Final = 1


@dataclass(frozen=True, slots=True)
class Message:
    """A record batch. `header` is the position of its description in `metadata`, `body` the position of its buffers in
    the file. A batch that `is_plain` is little-endian and not compressed.
    """

    metadata: memoryview
    header: int
    rows: int
    body: int
    body_length: int
    is_plain: bool


def batch_rows(file: pa.NativeFile) -> Iterator[int]:
    """The number of rows of each batch of a file that pyarrow could open. Raises `ValueError` where a batch's metadata
    is damaged.
    """
    return (message.rows for message in of_file(file))


def of_file(file: pa.NativeFile, first: int = 0) -> Iterator[Message]:
    """The batches that the footer names, from this one on."""
    size = file.size()
    length = int.from_bytes(file.read_at(4, size - _END), "little")
    footer = memoryview(file.read_at(length, size - _END - length))
    vector = field(footer, root(footer), 3)  # Footer.recordBatches
    if not vector:
        return
    schema = field(footer, root(footer), 1)  # Footer.schema
    is_little = not schema or _is_little(footer, table(footer, schema))
    blocks = table(footer, vector)
    for number in range(first, int.from_bytes(footer[blocks : blocks + 4], "little")):
        at = blocks + 4 + number * _BLOCK
        offset = int.from_bytes(footer[at : at + 8], "little")
        length = int.from_bytes(footer[at + 8 : at + 12], "little")
        body = int.from_bytes(footer[at + 16 : at + 24], "little")
        if offset + length + body > size:
            raise ValueError(f"record batch {number} reaches beyond the end")
        metadata = memoryview(file.read_at(length, offset))
        framed = metadata[8:] if bytes(metadata[:4]) == _CONTINUATION else metadata[4:]
        message = _message(framed, offset + length, f"record batch {number}", is_little)
        if message is None:
            raise ValueError(f"the metadata of record batch {number} is damaged")
        yield message


def of_stream(file: pa.NativeFile) -> Iterator[Message]:
    """The batches of a stream, up to its end."""
    at, size, is_little = 0, file.size(), True
    while at + 4 <= size:
        prefix = bytes(file.read_at(_PREFIX, at))
        framed = prefix[:4] == _CONTINUATION
        length = int.from_bytes(prefix[4:8] if framed else prefix[:4], "little")
        start = at + (_PREFIX if framed else 4)
        if not length:
            return
        if start + length > size:
            raise ValueError("the metadata of a message reaches beyond the end")
        metadata = memoryview(file.read_at(length, start))
        is_little = is_little and _is_little_schema(metadata)
        message = _message(metadata, start + length, "a record batch", is_little)
        at = start + length + _body_length(metadata)
        if at > size:
            raise ValueError("the body of a message reaches beyond the end")
        if message is not None:
            yield message


def _message(metadata: memoryview, body: int, what: str, is_little: bool) -> Message | None:
    """The message; None where it is no record batch."""
    if _kind(metadata) != _RECORD_BATCH:
        return None
    header = _header(metadata)
    length = field(metadata, header, 0) if header else 0  # RecordBatch.length
    rows = int.from_bytes(metadata[length : length + 8], "little", signed=True) if length else 0
    if not header or rows < 0:
        raise ValueError(f"the metadata of {what} is damaged")
    is_plain = is_little and not field(metadata, header, 3)  # RecordBatch.compression
    return Message(metadata, header, rows, body, _body_length(metadata), is_plain)


def _kind(metadata: memoryview) -> int:
    at = field(metadata, root(metadata), 1)  # Message.header_type
    return int.from_bytes(metadata[at : at + 1], "little") if at else 0


def _header(metadata: memoryview) -> int:
    at = field(metadata, root(metadata), 2)  # Message.header
    return table(metadata, at) if at else 0


def _body_length(metadata: memoryview) -> int:
    at = field(metadata, root(metadata), 3)  # Message.bodyLength
    return max(int.from_bytes(metadata[at : at + 8], "little", signed=True), 0) if at else 0


def _is_little_schema(metadata: memoryview) -> bool:
    """True unless the message is a schema that is not little-endian. Other messages do not say."""
    return _kind(metadata) != _SCHEMA or _is_little(metadata, _header(metadata))


def _is_little(view: memoryview, schema: int) -> bool:
    at = field(view, schema, 0)  # Schema.endianness
    return not at or int.from_bytes(view[at : at + 2], "little") != _BIG_ENDIAN
