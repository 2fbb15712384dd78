"""Arrow on the wire: schemas and record batches as IPC messages, and the checks on untrusted data.

Reading takes no copy: the batches point into the bytes they came in. Untrusted data is validated in full (offsets,
lengths, UTF-8). Data that could unpack to far more memory than its bytes is refused or bounded before that: compressed
bodies, dictionaries, views, run-end encodings, and rows that take no space at all.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Exhausted, InvalidRequest
from ..values import MIB, InlineSplit
from .flatbuffers import field, root, table
from .unpack import CODES, LIST_VIEWS, TEXT_VIEWS, packed, unpack, unpacked_type
from .validation import validated, validated_schema, viewed_bytes

MAX_INLINE_BYTES: Final = 1024 * MIB  # of one split, once dictionaries and views are unpacked
KNOWN_SCHEMA_BYTES: Final = 16_384  # a schema up to this size is remembered: it comes again with the next split
FREE_ROWS: Final = 65_536  # rows that may come without any bytes (columns of nulls, no columns)

_CONTINUATION: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUATION + bytes(4)


_schema_bytes: Final[dict[int, tuple[weakref.ref[pa.Schema], bytes]]] = {}
"""The schemas that are alive and were encoded, by identity: schemas with other metadata are equal to Arrow."""


def schema_bytes(schema: pa.Schema) -> bytes:
    """The schema as an IPC message.

    It is encoded once for each schema object. Encoding lets go of the interpreter's lock, and a list of tasks has
    hundreds of schemas: beside busy threads the list would wait for the lock as often.
    """
    identity = id(schema)
    known = _schema_bytes.get(identity)
    if known is not None and known[0]() is schema:
        return known[1]
    data: bytes = schema.serialize().to_pybytes()
    _schema_bytes[identity] = weakref.ref(schema, lambda _: _schema_bytes.pop(identity, None)), data
    return data


def read_schema(data: bytes) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
        raise InvalidRequest(
            f"this is not an Arrow IPC schema message: {_first_line(error)}", reason="MALFORMED_ARROW"
        ) from error


def read_batch(data: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch message as a batch that points into `data`. Only for data from a server that the caller trusts."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


class BatchPieces:
    """Record batch messages in pieces that point into the batches: joining them is the only copy.

    For many large batches of one schema. `RecordBatch.serialize` gives the same bytes, copied, and has no start to pay.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._written: list[bytes | pa.Buffer] = []

    def of(self, batch: pa.RecordBatch) -> Sequence[bytes | pa.Buffer]:
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._start(batch)
        self._writer.write_batch(batch)
        pieces = self._written[:]
        self._written.clear()
        return pieces

    def _start(self, batch: pa.RecordBatch) -> None:
        """Drop the schema, which a stream writes ahead of its first batch."""
        self._schema = batch.schema
        self._writer = pa.ipc.new_stream(_Collector(self._written), batch.schema)
        self._writer.write_batch(batch.slice(0, 0))
        self._written.clear()


class _Collector:
    """A file that keeps the buffers that are written to it; pyarrow writes the buffers of the columns themselves."""

    closed = False

    def __init__(self, written: list[bytes | pa.Buffer]) -> None:
        self.write = written.append

    def flush(self) -> None:
        """Do nothing: the collector has no buffer of its own."""

    def close(self) -> None:
        """Do nothing: the bytes that were written stay."""


def sendable(split: InlineSplit) -> InlineSplit:
    """The same rows in a form that `read_untrusted_stream` takes; the split itself where it is in such a form
    already.
    """
    if any(packed(type_) and _not_taken(type_) is not None for type_ in split.schema.types):
        schema = pa.schema(
            [field.with_type(unpacked_type(field.type)) for field in split.schema], split.schema.metadata
        )
        batches = tuple(
            pa.RecordBatch.from_arrays([unpack(column) for column in batch.columns], schema=schema)
            for batch in split.batches
        )
        split = replace(split, schema=schema, batches=batches)
    if any(batch.num_rows > FREE_ROWS and _claims_too_much(batch.num_rows, batch.nbytes) for batch in split.batches):
        split = replace(split, batches=tuple(piece for batch in split.batches for piece in _cut(batch)))
    return split


def _claims_too_much(rows: int, size: int) -> bool:
    return rows > FREE_ROWS + 8 * size


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, FREE_ROWS) for start in range(0, batch.num_rows, FREE_ROWS))


def stream_bytes(schema: pa.Schema, batches: tuple[pa.RecordBatch, ...]) -> bytes:
    """An IPC stream, as `InlineSplit.arrow` holds it. A stream without dictionaries is its messages, one behind the
    other.
    """
    if not any(map(packed, schema.types)) and all(batch.schema.equals(schema) for batch in batches):
        return b"".join((schema.serialize(), *(batch.serialize() for batch in batches), _END))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_untrusted_stream(data: bytes) -> tuple[pa.Schema, tuple[pa.RecordBatch, ...]]:
    """The plain batches of an IPC stream from a stranger; `InvalidRequest` or `Exhausted` say what is wrong with it."""
    try:
        shape, messages = _messages(data)
        if shape.direct and all(message.type == "record batch" for message in messages):
            batches = tuple(pa.ipc.read_record_batch(message, shape.schema) for message in messages)
        else:
            with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                batches = tuple(reader)
        batches = tuple(_checked(batch, shape, len(data)) for batch in batches)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        message = f"the inline data is not a valid Arrow IPC stream: {_first_line(error)}"
        raise InvalidRequest(message, reason="MALFORMED_ARROW") from error
    unpacked = sum(map(pa.ipc.get_record_batch_size, batches))  # `nbytes` takes ten times as long
    if unpacked > MAX_INLINE_BYTES:
        raise _too_large(unpacked)
    return shape.plain, batches


@dataclass(frozen=True, slots=True)
class _Shape:
    """A stream's schema, and the schema of its plain batches. Where it is `direct`, a batch can be read without the
    stream before it.
    """

    schema: pa.Schema
    plain: pa.Schema
    direct: bool


def _messages(data: bytes) -> tuple[_Shape, list[pa.ipc.Message]]:
    """The stream's shape and the messages after its schema, none of them compressed."""
    messages = _read_messages(pa.BufferReader(data))
    if not messages or messages[0].type != "schema":
        raise ValueError("the stream does not begin with a schema")
    for message in messages[1:]:
        _refuse_compression(message)
    metadata = messages[0].metadata.to_pybytes()
    return (_known_shape if len(metadata) <= KNOWN_SCHEMA_BYTES else _shape)(metadata), messages[1:]


def _read_messages(stream: pa.BufferReader) -> list[pa.ipc.Message]:
    """The messages up to the stream's end marker, or up to the end of its bytes. (A `MessageReader` costs as much
    again.)
    """
    messages: list[pa.ipc.Message] = []
    with suppress(EOFError):
        while True:
            messages.append(pa.ipc.read_message(stream))
    return messages


def _shape(metadata: bytes) -> _Shape:
    """The shape that a schema message (without its framing) describes."""
    framed = _CONTINUATION + len(metadata).to_bytes(4, "little") + metadata
    schema = validated_schema(pa.ipc.read_schema(pa.py_buffer(framed)))
    _refuse_types(schema)
    plain = pa.schema([_plain_field(field) for field in schema], schema.metadata)
    view = memoryview(metadata)
    header = table(view, field(view, root(view), 2))  # Message.header
    turned = field(view, header, 0) != 0  # Schema.endianness, absent where it is little
    same = plain.equals(schema, check_metadata=True)
    return _Shape(schema, schema if same else plain, direct=same and not turned and sys.byteorder == "little")


_known_shape = functools.lru_cache(maxsize=256)(_shape)


def _checked(batch: pa.RecordBatch, shape: _Shape, size: int) -> pa.RecordBatch:
    if _claims_too_much(batch.num_rows, size):
        message = f"a batch claims {batch.num_rows:,} rows but the whole split has {size:,} bytes"
        raise InvalidRequest(message, reason="MALFORMED_ARROW")
    validated(batch)
    if shape.plain is shape.schema or not batch.num_columns:
        return batch
    columns = [_plain_column(column, field) for column, field in zip(batch.columns, shape.plain, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=shape.plain)


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(data_type):
        return _plain_type(data_type.value_type)
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    return data_type


def _plain_column(column: pa.Array, field: pa.Field) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):
        _refuse_growth(_dictionary_bytes(column))
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        _refuse_growth(viewed_bytes(column))
        column = column.cast(field.type)
    return column


def _dictionary_bytes(column: pa.DictionaryArray) -> int:
    """The bytes of a dictionary-encoded column once it is unpacked."""
    values = column.dictionary
    if pa.types.is_primitive(values.type):
        return len(column) * int(values.type.bit_width) // 8
    if pa.types.is_fixed_size_binary(values.type) or pa.types.is_decimal(values.type):
        return len(column) * int(values.type.byte_width)
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return len(column) * (int(longest) + 4)


def _refuse_growth(size: int) -> None:
    if size > MAX_INLINE_BYTES:
        raise _too_large(size)


def _too_large(size: int) -> Exhausted:
    message = (
        f"the inline split has {size:,} bytes once unpacked; at most {MAX_INLINE_BYTES:,} are allowed: give the rows "
        "as a file"
    )
    return Exhausted(message, reason="SPLIT_TOO_LARGE")


def _refuse_types(schema: pa.Schema) -> None:
    for column in schema:
        if (refused := _not_taken(column.type)) is not None:
            raise _not_plain(column.name, refused)


def _not_taken(data_type: pa.DataType) -> pa.DataType | None:
    """The type itself, or a type inside it, that is stored in a way that is refused."""
    value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    if value_type is not data_type and pa.types.is_nested(value_type):
        return data_type
    for inner in (value_type, *_children(value_type)):
        nested_view = inner is not value_type and inner.id in TEXT_VIEWS
        if inner.id in CODES or inner.id in LIST_VIEWS or nested_view:
            return inner
    return None


def _children(data_type: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_nested(data_type) or isinstance(data_type, pa.BaseExtensionType):
        inside = [data_type.storage_type] if isinstance(data_type, pa.BaseExtensionType) else []
        inside += [data_type.field(i).type for i in range(data_type.num_fields)]
        for child in inside:
            yield child
            yield from _children(child)


def _not_plain(name: str, data_type: pa.DataType) -> InvalidRequest:
    return InvalidRequest(
        f"inline column {name!r} has type {data_type}: send the column unpacked", reason="UNSUPPORTED_ENCODING"
    )


def _refuse_compression(message: pa.ipc.Message) -> None:
    """Raise for a compressed body: a few bytes of it can unpack to any size, and pyarrow unpacks while it reads."""
    if message.type == "schema" or not _compressed(memoryview(message.metadata), message.type):
        return
    raise InvalidRequest(
        "the inline data is compressed: send the data uncompressed (the transport can compress)",
        reason="UNSUPPORTED_ENCODING",
    )


def _compressed(metadata: memoryview, kind: str) -> bool:
    """True where a batch's flatbuffer has a `compression` table. pyarrow has verified the flatbuffer, but does not
    say.
    """
    header = field(metadata, root(metadata), 2)  # Message.header
    batch = table(metadata, header)
    if kind == "dictionary":
        batch = table(metadata, field(metadata, batch, 1))  # DictionaryBatch.data
    return field(metadata, batch, 3) != 0  # RecordBatch.compression


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
