"""An Arrow table in memory, built once and probed by hash.

The rows are kept in the order of their keys' hashes. The upper bits of a hash lead to the first of the distinct hashes
with those bits. The wanted hash is a step or two from there, and leads to the rows. Where different keys may have one
hash, the keys themselves are compared. The matches of a key come in the table's order. Rows with a null in a key are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.errors import ExecutionError, InternalError
from ..arrays.hashing import Hashes, hash_columns, hashable
from ..arrays.layout import arrow_positions
from ..core.batches import batch_of
from .index import Index, Matches, RowNumbers
from .kept_keys import bits_say_equal, kept_keys, values_at

#: With more distinct hashes than this behind the same upper bits, a binary search over all hashes is used instead.
_LONGEST_WALK: Final = 64
_MAX_DIRECTORY_BITS: Final = 28
#: An entry behind the last distinct hash, so that a walk ends there.
_END: Final = (1 << 64) - 1


class ArrowIndex(Index):
    """An index over the columns `keys` of `table`. Its look-ups give the columns `columns`.

    The index keeps a copy of these columns in memory, and 16 to 32 bytes a row.
    """

    lasting = False

    def __init__(self, name: str, table: pa.Table, *, keys: Sequence[int], columns: Sequence[int]) -> None:
        self.name = name
        self.schema = pa.schema([table.schema.field(i) for i in columns])
        self._types = self.schema.types
        self.key_types = tuple(table.schema.field(i).type for i in keys)
        _check_keys(name, table.schema, keys)
        arrays = {i: _contiguous(table.column(i), table.schema.field(i), name) for i in {*keys, *columns}}
        present = _rows_with_keys([arrays[i] for i in keys], table.num_rows)
        if len(present) < table.num_rows:
            arrays = {i: array.take(pa.array(present)) for i, array in arrays.items()}
        hashes = hash_columns([arrays[i] for i in keys])
        order = np.argsort(hashes, kind="stable")
        arrays = {i: array.take(pa.array(order)) for i, array in arrays.items()}
        self._keys = kept_keys([arrays[i] for i in keys])
        # A column that is also a key need not be read from the table, where the key of the look-up has the same value.
        alike = {i: at for at, i in reversed([*enumerate(keys)]) if bits_say_equal(table.schema.field(i).type)}
        self._as_asked = [alike.get(i) for i in columns]
        far = [i for i in columns if i not in alike]
        self._far = pa.RecordBatch.from_arrays([arrays[i] for i in far], names=[str(i) for i in far])
        self._hashes = _Hashes(hashes[order])

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        asked = keys.columns
        rows, positions = self._hashes.find(hash_columns(asked))
        same = self._keys.same(positions, asked, rows)
        if same is not None and not same.all():
            rows, positions = rows[same], positions[same]
        far = iter(
            pc.take(self._far, arrow_positions(positions), boundscheck=False).columns if self._far.num_columns else ()
        )
        arrays = [
            _in_type(next(far), type_) if key is None else values_at(asked[key], rows)
            for key, type_ in zip(self._as_asked, self._types, strict=True)
        ]
        return Matches(rows=rows, columns=batch_of(arrays, len(rows), self.schema))


def _in_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type.equals(wanted) else values.cast(wanted)


class _Hashes:
    """A directory of rows sorted by their hashes."""

    def __init__(self, hashes: Hashes) -> None:
        """Make the directory of sorted `hashes`."""
        rows = len(hashes)
        first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[:rows])
        self._count = len(first)
        self._unique = self._count == rows
        self._distinct = np.append(hashes[first], np.uint64(_END))
        self._starts: RowNumbers = np.append(first, rows)
        bits = min(self._count.bit_length() + 1, _MAX_DIRECTORY_BITS)
        self._shift = np.uint64(64 - bits)
        counts = np.bincount((self._distinct[:-1] >> self._shift).astype(np.int64), minlength=1 << bits)
        # Narrow where possible: a cache holds more of it.
        self._directory = (np.cumsum(counts) - counts).astype(np.int32 if rows < 1 << 31 else np.int64)
        self._walks = int(counts.max()) <= _LONGEST_WALK

    def find(self, hashes: Hashes) -> tuple[RowNumbers, RowNumbers]:
        """Pairs of the number of a hash in `hashes`, ascending, and the position of a row with that hash, ascending."""
        at, seen = self._walk(hashes) if self._walks else self._search(hashes)
        rows = ((seen == hashes) & (at < self._count)).nonzero()[0]
        at = at[rows]
        if self._unique:
            return rows, at
        starts = self._starts[at]
        counts = self._starts[at + 1] - starts
        ends = np.cumsum(counts)
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
        return np.repeat(rows, counts), positions

    def _walk(self, hashes: Hashes) -> tuple[RowNumbers, Hashes]:
        """For each of `hashes` the first distinct hash that is not less: a few steps behind the entry that the upper
        bits lead to.
        """
        at = self._directory.take((hashes >> self._shift).astype(np.int64)).astype(np.int64)
        seen = self._distinct.take(at)
        below = (seen < hashes).nonzero()[0]
        while below.size:
            at[below] += 1
            seen[below] = self._distinct.take(at[below])
            below = below[seen[below] < hashes[below]]
        return at, seen

    def _search(self, hashes: Hashes) -> tuple[RowNumbers, Hashes]:
        at = np.searchsorted(self._distinct, hashes)
        return at, self._distinct.take(at)


def _check_keys(name: str, schema: pa.Schema, keys: Sequence[int]) -> None:
    if not keys:
        raise InternalError(f"index {name!r} has no key")
    for field in (schema.field(i) for i in keys):
        if kinds.is_nested(field.type) or not hashable(field.type):
            raise ExecutionError(
                f"index {name!r}: rows cannot be looked up by column {field.name!r} of type {field.type}",
                reason="UNSUPPORTED_TYPE",
            )


def _contiguous(column: pa.ChunkedArray, field: pa.Field, name: str) -> pa.Array:
    """The column in one piece, with offsets of 64 bits where 32 bits are not enough."""
    if kinds.is_string(field.type) and column.nbytes >= 1 << 31:
        column = column.cast(pa.large_string())
    elif kinds.is_binary(field.type) and column.nbytes >= 1 << 31:
        column = column.cast(pa.large_binary())
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        if combined.num_chunks != 1:
            raise ExecutionError(
                f"index {name!r}: column {field.name!r} of type {field.type} is too large for an index in memory: "
                "filter or narrow its rows",
                reason="INDEX_TOO_LARGE",
            )
        combined = combined.chunk(0)
    return combined


def _rows_with_keys(keys: Sequence[pa.Array], rows: int) -> RowNumbers:
    present = np.ones(rows, dtype=bool)
    for key in keys:
        if key.null_count:
            present &= key.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(present)
