"""Streams of statements that may make many bytes of each byte, in small parts.

DuckDB does not count the texts and lists that expressions make, and nothing bounds those of SQL that users write. So
such a statement gets few bytes at once, and no long rows: the less, the more its expressions make of each byte, if
every function makes no more bytes than it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ...proto.errors import ExecutionError
from .blocks import blocks
from .operator import Stream
from .sizes import row_beyond

PART_BYTES: Final = 256 << 10
"""The bytes that a statement gets at once, if a row has no more."""
_LONGEST_SHARE: Final = 16
"""A row may take one part in so many of the statement's memory."""
_GROWN_SHARE: Final = 8
"""What is made of the rows that a statement gets at once may take one part in so many of its memory."""


def in_small_parts(
    stream: Stream | Iterator[pa.RecordBatch], memory: int, growth: int, plan_path: str
) -> Iterator[pa.RecordBatch]:
    """The rows in parts that are a function of the rows and of what is here. A statement makes `growth` bytes of each
    byte. A row that is too long is an error at `plan_path`.
    """
    most = max(memory // (_GROWN_SHARE * growth), 1)
    longest = min(memory // _LONGEST_SHARE, most)

    def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
        too_large = row_beyond(batch, longest)
        if too_large is not None:
            raise ExecutionError(
                f"{plan_path}: computes with a row of {too_large[1]:,} bytes; at most {longest:,} are allowed with "
                f"this memory_limit, as its SQL may make {growth:,} bytes and more of each byte: raise memory_limit",
                reason="ROW_TOO_LARGE",
            )
        return batch

    return blocks(map(checked, stream), size=min(PART_BYTES, most))
