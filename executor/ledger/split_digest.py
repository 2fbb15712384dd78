"""A digest of a split in 16 bytes, which tells a retry from another split with the same number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from ...operators.core.blocks import blocks
from ...proto.values import FileSplit, InlineSplit, MissingColumns, PlanBytes, Split, TaskOptions

DIGEST_BYTES: Final = 16
"""Of SHA-256, for which processors have instructions: it takes half the time of BLAKE2 there."""


def file_digest(split: FileSplit) -> bytes:
    """The digest of a file split's description. Whether the file has changed is checked when it is read."""
    return bytes_digest(
        repr(
            (
                split.path,
                split.format,
                split.rows,
                split.row_groups,
                split.watermark,
                split.change_column,
                split.missing_columns,
            )
        ).encode()
    )


def inline_digest(
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    watermark: int | None,
    change_column: str | None,
    missing_columns: MissingColumns | None,
) -> bytes:
    """The digest of rows, independent of their batches, and of what the split says of them."""
    sink = _Hashed()
    _write_rows(schema, batches, sink)
    return _with_description(sink.digest, watermark, change_column, missing_columns)


def rows_stream(split: InlineSplit) -> pa.Buffer:
    """The split's rows as an Arrow stream, which does not depend on their batches."""
    sink = pa.BufferOutputStream()
    _write_rows(split.schema, split.batches, sink)
    return sink.getvalue()


def digest_of_stream(split: InlineSplit, stream: bytes) -> bytes:
    """The digest of a split, from the digest of its `rows_stream`."""
    return _with_description(stream, split.watermark, split.change_column, split.missing_columns)


def _with_description(
    stream: bytes, watermark: int | None, change_column: str | None, missing_columns: MissingColumns | None
) -> bytes:
    return bytes_digest(stream, repr((watermark, change_column, missing_columns)).encode())


def _write_rows(schema: pa.Schema, batches: Sequence[pa.RecordBatch], sink: object) -> None:
    """Write the rows as an Arrow stream, which does not depend on their batches."""
    with pa.ipc.new_stream(sink, schema) as writer:
        for block in blocks(pa.Table.from_batches(batches, schema).unify_dictionaries().to_batches()):
            writer.write_batch(block)


def creation_digest(
    plan: PlanBytes, options: TaskOptions, tables: Mapping[str, Sequence[Split]], restore: str
) -> bytes:
    """The digest of everything that a task is made from."""
    parts: list[object] = [repr((plan, options, sorted(tables), restore)).encode()]
    for _, splits in sorted(tables.items()):
        parts.append(str(len(splits)).encode())
        parts += [split_digest(split) for split in splits]
    return bytes_digest(*parts)


def split_digest(split: Split) -> bytes:
    match split:
        case FileSplit():
            return file_digest(split)
        case InlineSplit():
            return inline_digest(
                split.schema, split.batches, split.watermark, split.change_column, split.missing_columns
            )


class _Hashed:
    """A file to write to, of which the digest alone is kept."""

    closed = False

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return len(data)

    @property
    def digest(self) -> bytes:
        return self._hash.digest()[:DIGEST_BYTES]

    def flush(self) -> None:
        """Do nothing: no bytes are buffered."""

    def close(self) -> None:
        """Do nothing: more may be written."""


def bytes_digest(*parts: object) -> bytes:
    """The digest of bytes and buffers, one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]  # bytes and Arrow buffers
    return digest.digest()[:DIGEST_BYTES]
