"""Reads a source's splits as changes: rows in the columns of the plan, with their weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from ...operators.changes.values.change import Change
from ...operators.core.piece import Piece
from ...operators.core.sizes import BATCH_BYTES
from ...operators.core.wide_rows import PassingRows, packed
from ...operators.duckdb.conform import Conform
from ...operators.sources.formats.matching import Names, match_change_column, match_columns
from ...operators.sources.scan import Scan
from ...operators.sources.split_pieces import open_pieces
from ...planner.physical.sources import PlannedSource
from ...proto.errors import InvalidRequest
from ...proto.values import InlineSplit, MissingColumns, Split
from ..ledger.split_book import rowless
from ..runtime.meters import Meter, MeteredStream

_FREED_SHARE: Final = 16
_MOST_FREED: Final = 32 << 20
"""Merges of the state free as much as the state, whatever the width of rows. Memory goes back to the system each time
that this part of the memory, or so many bytes, were read.
"""


class Reading:
    """Reads one source, whose rows may have at most `largest` bytes.

    `schema` is the schema of its rows inside the plan, where structs' fields have no names of their own.
    """

    def __init__(self, source: PlannedSource, schema: pa.Schema, meter: Meter, largest: int) -> None:
        self.schema = schema
        self._largest = largest
        self._freed_every = min(max(BATCH_BYTES, largest // _FREED_SHARE), _MOST_FREED)
        self._source = source
        self._meter = meter
        self._inside = Conform(schema, source.name)
        self._checked: tuple[pa.Schema, str | None, MissingColumns | None] | None = None
        self._scans: dict[str | None, Scan] = {}
        """Scans by their change column."""

    def accept(self, split: Split, origin: str) -> None:
        """Raise unless the split's rows can be read as changes of the source, as far as is known without reading."""
        name = split.change_column
        if isinstance(split, InlineSplit) and self._checked == (split.schema, name, split.missing_columns):
            return
        if name is not None and Names([column.name for column in self._source.columns]).position(name) is not None:
            raise InvalidRequest(
                f"{origin}: {name!r} cannot be the change column, because the plan reads a column of this name from "
                f"source {self._source.name!r}: a deleted row must be equal to the row that was inserted",
                reason="CHANGE_COLUMN_IN_PLAN",
            )
        if isinstance(split, InlineSplit):
            piece = rowless(split, origin)
            match_columns(self._source.columns, split.schema, piece)
            if name is not None:
                match_change_column(name, split.schema, piece)
            self._checked = split.schema, name, split.missing_columns

    def opened(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """The pieces with the facts from their files' footers."""
        return open_pieces(pieces, self._source.columns)

    def changes(self, pieces: Sequence[Piece]) -> Iterator[tuple[Change, int]]:
        """The rows of opened pieces, in order, and about how many bytes each batch has. Drops rows of weight 0."""
        for name, alike in itertools.groupby(pieces, key=lambda piece: piece.change_column):
            scan = self._scan(name)
            scan.assign(self._source.name, tuple(alike))
            passing = PassingRows(self._freed_every)
            with closing(MeteredStream(scan.schema, scan.run(()), self._meter)) as batches:
                read = self._meter.bytes_out
                for batch in map(packed, batches):
                    size, read = self._meter.bytes_out - read, self._meter.bytes_out
                    passing.add_bytes(size)
                    yield self._change(batch, has_weights=name is not None), size
            scan.assign(self._source.name, ())

    def _scan(self, change_column: str | None) -> Scan:
        """The scan for a change column. It remembers how it matched the last split's columns: most splits are alike."""
        scan = self._scans.get(change_column)
        if scan is None:
            scan = Scan(
                self._source.name,
                self._source.columns,
                change_column=change_column,
                largest=self._largest,
                counts=self._meter,
            )
            self._scans[change_column] = scan
        return scan

    def _change(self, batch: pa.RecordBatch, *, has_weights: bool) -> Change:
        if not has_weights:
            return Change.of_batch(self._inside(batch))
        last = batch.num_columns - 1
        weights = batch.column(last).to_numpy()
        rows = batch.remove_column(last)
        change = Change.of_batch(self._inside(rows), weights)
        return change if np.count_nonzero(weights) == len(weights) else change.take(weights.nonzero()[0])
