"""Streams of statements that may make many bytes of each byte, in small parts.

DuckDB does not count the texts and lists that expressions make, and nothing bounds those of SQL that users write. So
such a statement gets few bytes at once, and no long rows.
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


def in_small_parts(stream: Stream | Iterator[pa.RecordBatch], memory: int, plan_path: str) -> Iterator[pa.RecordBatch]:
    """The rows in parts that are a function of the rows alone. A row that is too long is an error at `plan_path`."""
    longest = memory // _LONGEST_SHARE

    def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
        too_large = row_beyond(batch, longest)
        if too_large is not None:
            raise ExecutionError(
                f"{plan_path}: computes with a row of {too_large[1]:,} bytes; at most {longest:,} are allowed with "
                "this memory_limit, as nothing bounds what its SQL makes of them: raise memory_limit",
                reason="ROW_TOO_LARGE",
            )
        return batch

    return blocks(map(checked, stream), size=PART_BYTES)
