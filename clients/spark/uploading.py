"""Sends rows from an executor to the service, as uploads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ..proto.values import MIB, InlineSplit
from ..transport.inline_files import ArrowFile
from ..transport.remote import RemoteService
from .filling import filled

UPLOAD_BYTES: Final = 16 * MIB  # of rows in one upload


def in_uploads(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches that have rows, grouped by upload."""
    return filled((batch for batch in batches if batch.num_rows), lambda batch: int(batch.nbytes), UPLOAD_BYTES)


def upload(service: RemoteService, task: str, name: str, batches: Sequence[pa.RecordBatch], group: str) -> str:
    """Send the batches; the path by which a split names them."""
    rows = InlineSplit(schema=batches[0].schema, batches=tuple(batches))
    return service.upload(task, name, ArrowFile(rows), group=group)
