"""A digest of a split in 16 bytes, which tells a retry from another split with the same number.

Rows have two digests. `split_digest` is one of cryptography: journals and checkpoints have it. `rows_fingerprint` costs
half as much, and stays in the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from ...operators.core.blocks import BLOCK_ROWS, blocks
from ...proto.values import FileSplit, InlineSplit, PlanBytes, Split, TaskOptions
from .fingerprint import Fingerprint

_FEW_BYTES: Final = 64 << 10

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
                split.number,
                split.version,
            )
        ).encode()
    )


def rows_fingerprint(split: InlineSplit) -> bytes:
    """The digest of rows, independent of their batches, and of what the split says of them.

    It is made of a fingerprint: a client who looks for other rows of the same fingerprint deceives only itself.
    """
    return digest_of_stream(split, _written_to(Fingerprint(), split))


class RowsStream:
    """A split's rows as an Arrow stream, which does not depend on their batches. The stream is never in memory as a
    whole unless it has few bytes or `buffer` is called: it may be written to several files at the same time, each by a
    thread.
    """

    def __init__(self, split: InlineSplit) -> None:
        self._schema = split.schema
        self._blocks = _blocks(split.schema, split.batches)
        self._buffer: pa.Buffer | None = None
        if sum(block.get_total_buffer_size() for block in self._blocks) <= _FEW_BYTES:
            self._buffer = self.buffer()
            self.size: int = self._buffer.size
        else:
            counted = pa.MockOutputStream()
            self.write(counted)
            self.size = counted.size()

    def write(self, sink: object) -> None:
        _write_blocks(self._schema, self._blocks, sink)

    def buffer(self) -> pa.Buffer:
        if self._buffer is not None:
            return self._buffer
        sink = pa.BufferOutputStream()
        self.write(sink)
        return sink.getvalue()


def digest_of_stream(split: InlineSplit, stream: bytes) -> bytes:
    """The digest of a split, from the digest of its `RowsStream`."""
    return bytes_digest(stream, repr((split.watermark, split.change_column, split.missing_columns)).encode())


def _blocks(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> tuple[pa.RecordBatch, ...]:
    if len(batches) == 1 and 0 < batches[0].num_rows <= BLOCK_ROWS and batches[0].get_total_buffer_size() <= _FEW_BYTES:
        return tuple(batches)  # one block already
    return tuple(blocks(pa.Table.from_batches(batches, schema).unify_dictionaries().to_batches()))


def _write_blocks(schema: pa.Schema, rows: Sequence[pa.RecordBatch], sink: object) -> None:
    with pa.ipc.new_stream(sink, schema) as writer:
        for block in rows:
            writer.write_batch(block)


def _written_to(sink: _Hashed | Fingerprint, split: InlineSplit) -> bytes:
    """The digest of what the sink gets: the stream of the split's rows."""
    _write_blocks(split.schema, _blocks(split.schema, split.batches), sink)
    return sink.digest()


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
            return digest_of_stream(split, _written_to(_Hashed(), split))


class _Hashed:
    """A file to write to, of which the digest alone is kept."""

    closed = False

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return len(data)

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
