"""A digest of a split in 16 bytes, which tells a retry from another split with the same number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from ...proto.values import FileSplit, InlineSplit, MissingColumns, PlanBytes, Split, TaskOptions


def file_digest(split: FileSplit) -> bytes:
    """The digest of a file split's description. Whether the file has changed is checked when it is read."""
    return _hash(
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
    whole = pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(whole)
    return _hash(sink.getvalue(), repr((watermark, change_column, missing_columns)).encode())


def creation_digest(
    plan: PlanBytes, options: TaskOptions, tables: Mapping[str, Sequence[Split]], restore: str
) -> bytes:
    """The digest of everything that a task is made from."""
    parts: list[object] = [repr((plan, options, sorted(tables), restore)).encode()]
    for _, splits in sorted(tables.items()):
        parts.append(str(len(splits)).encode())
        parts += [split_digest(split) for split in splits]
    return _hash(*parts)


def split_digest(split: Split) -> bytes:
    match split:
        case FileSplit():
            return file_digest(split)
        case InlineSplit():
            return inline_digest(
                split.schema, split.batches, split.watermark, split.change_column, split.missing_columns
            )


def _hash(*parts: object) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]  # bytes and Arrow buffers
    return digest.digest()
