"""How many rows the record batches of an Arrow file have, from their metadata alone.

pyarrow gives a batch only with (columns of) its body. The footer says where each batch's metadata lies, and that says
how many rows there are: a few hundred bytes a batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...proto.flatbuffers import field, root, table

_END = 10  # the footer's length and the magic
_BLOCK = 24  # offset, metadata's length (padded to 8 bytes), body's length
_CONTINUATION = b"\xff\xff\xff\xff"


def batch_rows(file: pa.NativeFile) -> Iterator[int]:
    """The rows of each batch, of a file that pyarrow could open; `ValueError` where a batch's metadata is damaged."""
    size = file.size()
    length = int.from_bytes(file.read_at(4, size - _END), "little")
    footer = memoryview(file.read_at(length, size - _END - length))
    found = field(footer, root(footer), 3)  # Footer.recordBatches
    if not found:
        return
    blocks = table(footer, found)
    for number in range(int.from_bytes(footer[blocks : blocks + 4], "little")):
        at = blocks + 4 + number * _BLOCK
        offset = int.from_bytes(footer[at : at + 8], "little")
        length = int.from_bytes(footer[at + 8 : at + 12], "little")
        if offset + length > size:
            raise ValueError(f"the metadata of record batch {number} is beyond the end")
        yield _rows(memoryview(file.read_at(length, offset)), number)


def _rows(metadata: memoryview, number: int) -> int:
    """Of one batch; old files do not frame their metadata with a continuation."""
    message = metadata[8:] if metadata[:4] == _CONTINUATION else metadata[4:]
    header = field(message, root(message), 2)  # Message.header
    rows = field(message, table(message, header), 0) if header else 0  # RecordBatch.length
    count = int.from_bytes(message[rows : rows + 8], "little", signed=True) if rows else 0
    if not header or count < 0:
        raise ValueError(f"the metadata of record batch {number} is damaged")
    return count
