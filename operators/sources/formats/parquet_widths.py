"""The bytes of a decoded row of a Parquet file's row group, estimated before it is decoded.

The footer says how large a column is as it is encoded. A value that is written once, in a dictionary, and stands in
many rows takes more once it is decoded, so the largest value of the dictionary counts for each row. A file of a few
hundred bytes may decode to gigabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as kinds

from ....proto.arrow.parquet_footer import BYTE_ARRAY, Footer
from ....proto.arrow.validation import each_validated
from ...core.sizes import BATCH_BYTES
from .format import BATCH_ROWS

_MOST: Final = 8 * BATCH_BYTES
_BUFFER_BYTES: Final = 64 << 10


class Widths:
    """The widths of rows of an open file. The file is read where a dictionary has to be looked at."""

    def __init__(self, file: pa.NativeFile, metadata: pq.FileMetaData, footer: Footer) -> None:
        self._file = file
        self._metadata = metadata
        self._footer = footer

    def row_bytes(self, group: int, leaves: Sequence[int]) -> int:
        """About the bytes of a row in these leaves: the average of values that are written in each row, and the largest
        of values that are written once.
        """
        row_group = self._footer.groups[group]
        rows = max(row_group.rows, 1)
        written = sum(row_group.chunks[at].uncompressed for at in leaves)
        return written // rows + sum(self._repeated(group, at, rows) for at in leaves)

    def _repeated(self, group: int, leaf: int, rows: int) -> int:
        """The bytes of a row whose values all are the largest one of the leaf's dictionary; 0 where the leaf has no
        dictionary or its values are small anyway.
        """
        chunk = self._footer.groups[group].chunks[leaf]
        if chunk.physical != BYTE_ARRAY or not chunk.has_dictionary:
            return 0
        repeats = -(-chunk.values // rows)
        if chunk.uncompressed * min(rows, BATCH_ROWS) * repeats <= _MOST:
            return 0
        return self._largest(group, ".".join(self._footer.leaves[leaf].path)) * repeats

    def _largest(self, group: int, path: str) -> int:
        """The bytes of the largest value in the dictionary of a column."""
        parquet = pq.ParquetFile(
            self._file, metadata=self._metadata, read_dictionary=[path], pre_buffer=False, buffer_size=_BUFFER_BYTES
        )
        first = next(
            each_validated(parquet.iter_batches(1, row_groups=[group], columns=[path], use_threads=False)), None
        )
        return 0 if first is None else max(map(_longest, first.columns), default=0)


def _longest(array: pa.Array) -> int:
    if kinds.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary)
        return int(np.asarray(lengths.fill_null(0)).max(initial=0))
    if kinds.is_struct(array.type):
        return max(map(_longest, array.flatten()), default=0)
    if kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_fixed_size_list(array.type):
        return _longest(array.values)
    if kinds.is_map(array.type):
        return max(_longest(array.keys), _longest(array.items))
    return 0
