"""Record batches and dictionaries of an Arrow file or stream: their positions, row counts and compression, from their
metadata alone.

pyarrow reads a batch only with (columns of) its body. The footer of a file says where each batch's metadata lies; in a
stream each message says where the next one lies. So a few hundred bytes are read for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from .....proto.arrow.flatbuffers import field, root, table

_END: Final = 10  # the footer's length and the magic
_BLOCK: Final = 24  # offset, metadata's length (padded to 8 bytes), body's length
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_PREFIX: Final = 8
_SCHEMA: Final = 1
_DICTIONARY: Final = 2
_RECORD_BATCH: Final = 3
_BIG_ENDIAN: Final = 1
_FOOTER_DICTIONARIES: Final = 2
_FOOTER_BATCHES: Final = 3
_VERSION_4: Final = 3
_CODECS: Final = {0: "lz4", 1: "zstd"}
#: The name of a codec that only pyarrow decodes.
OTHER_CODEC: Final = "other"
_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"


@dataclass(frozen=True, slots=True)
class Message:
    """A record batch, or a dictionary. `header` is the position of the batch's description in `metadata`, `body` the
    position of its buffers in the file. `codec` is None where its buffers are not compressed. A dictionary has the id
    that its fields name, and may be added to the one before (`is_delta`).
    """

    metadata: memoryview
    header: int
    rows: int
    body: int
    body_length: int
    is_little: bool
    codec: str | None
    is_old: bool
    dictionary: int | None = None
    is_delta: bool = False


def of_file(file: pa.NativeFile, first: int = 0) -> Iterator[Message]:
    """The batches that the footer names, from this one on. Raises `ValueError` where a batch's metadata is damaged."""
    return _of_footer(file, _FOOTER_BATCHES, first)


def dictionaries_of_file(file: pa.NativeFile) -> Iterator[Message]:
    """The dictionaries that the footer names."""
    return _of_footer(file, _FOOTER_DICTIONARIES, 0)


def schema_of_file(file: pa.NativeFile) -> tuple[memoryview, int]:
    """The footer, and the position of the schema in it."""
    size = file.size()
    length = int.from_bytes(file.read_at(4, size - _END), "little")
    footer = memoryview(file.read_at(length, size - _END - length))
    at = field(footer, root(footer), 1)  # Footer.schema
    if not at:
        raise ValueError("the footer has no schema")
    return footer, table(footer, at)


def schema_of_stream(file: pa.NativeFile) -> tuple[memoryview, int]:
    """The metadata of a stream's first message, and the position of the schema in it."""
    for metadata, _ in _metadata_of_stream(file):
        if _kind(metadata) == _SCHEMA:
            return metadata, _header(metadata)
        break
    raise ValueError("the stream does not begin with a schema")


def _of_footer(file: pa.NativeFile, number_of_field: int, first: int) -> Iterator[Message]:
    size = file.size()
    footer, schema = schema_of_file(file)
    vector = field(footer, root(footer), number_of_field)
    if not vector:
        return
    is_little = _is_little(footer, schema)
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
    """The batches and dictionaries of a stream, up to its end."""
    is_little = True
    for metadata, body in _metadata_of_stream(file):
        is_little = is_little and _is_little_schema(metadata)
        message = _message(metadata, body, "a record batch", is_little)
        if message is not None:
            yield message


def _metadata_of_stream(file: pa.NativeFile) -> Iterator[tuple[memoryview, int]]:
    """The metadata of each message, and the position of its body."""
    at, size = 0, file.size()
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
        at = start + length + _body_length(metadata)
        if at > size:
            raise ValueError("the body of a message reaches beyond the end")
        yield metadata, start + length


def _message(metadata: memoryview, body: int, what: str, is_little: bool) -> Message | None:
    """The message; None where it is neither a record batch nor a dictionary."""
    kind = _kind(metadata)
    if kind not in (_RECORD_BATCH, _DICTIONARY):
        return None
    header, dictionary, is_delta = _header(metadata), None, False
    if header and kind == _DICTIONARY:
        dictionary = _number(metadata, field(metadata, header, 0), 8)  # DictionaryBatch.id
        is_delta = bool(_number(metadata, field(metadata, header, 2), 1))  # DictionaryBatch.isDelta
        data = field(metadata, header, 1)  # DictionaryBatch.data
        header = table(metadata, data) if data else 0
    rows = _number(metadata, field(metadata, header, 0), 8) if header else 0  # RecordBatch.length
    if not header or rows < 0:
        raise ValueError(f"the metadata of {what} is damaged")
    return Message(
        metadata,
        header,
        rows,
        body,
        _body_length(metadata),
        is_little,
        _codec(metadata, header),
        _number(metadata, field(metadata, root(metadata), 0), 2) <= _VERSION_4,  # Message.version
        dictionary,
        is_delta,
    )


def _codec(metadata: memoryview, header: int) -> str | None:
    compression = field(metadata, header, 3)  # RecordBatch.compression
    if compression:
        of = table(metadata, compression)
        return _CODECS.get(_number(metadata, field(metadata, of, 0), 1), OTHER_CODEC)
    # Writers of 2020 named the codec beside the batch.
    beside = field(metadata, root(metadata), 4)  # Message.custom_metadata
    return OTHER_CODEC if beside and _OLD_COMPRESSION in bytes(metadata) else None


def _number(view: memoryview, at: int, size: int) -> int:
    """The number of so many bytes; 0 where the field is absent."""
    return int.from_bytes(view[at : at + size], "little", signed=True) if at else 0


def _kind(metadata: memoryview) -> int:
    at = field(metadata, root(metadata), 1)  # Message.header_type
    return int.from_bytes(metadata[at : at + 1], "little") if at else 0


def _header(metadata: memoryview) -> int:
    at = field(metadata, root(metadata), 2)  # Message.header
    return table(metadata, at) if at else 0


def _body_length(metadata: memoryview) -> int:
    return max(_number(metadata, field(metadata, root(metadata), 3), 8), 0)  # Message.bodyLength


def _is_little_schema(metadata: memoryview) -> bool:
    """True unless the message is a schema that is not little-endian. Other messages do not say."""
    return _kind(metadata) != _SCHEMA or _is_little(metadata, _header(metadata))


def _is_little(view: memoryview, schema: int) -> bool:
    at = field(view, schema, 0)  # Schema.endianness
    return not at or int.from_bytes(view[at : at + 2], "little") != _BIG_ENDIAN
