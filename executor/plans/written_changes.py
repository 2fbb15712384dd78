"""Writes the changes of a continuous task into a table: a change inserts rows, and the table has these rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from ...operators.core.batches import batch_of
from ...operators.write import Write
from ...operators.writing.staged_write import Written
from ...proto.arrow.shown_values import shown_names
from ...proto.errors import ExecutionError
from ..api.computation import Effect, RowEffect
from ..runtime.meters import Meter, MeteredStream

_MOST_COPIES: Final = 1 << 27
"""The most rows that a batch of changes stands for."""
_ROWS: Final = 65_536


class WrittenChanges:
    """Writes changes, whose last column is the weight, by an effect over rows."""

    def __init__(self, write: RowEffect, meter: Meter, schema: pa.Schema) -> None:
        self.effect = write
        self._meter = meter
        self._schema = schema

    def rows(self, number: int, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that the epoch of this number writes and the result has, each with the weight 1."""
        write = self.effect
        write.begin(number)
        stream = MeteredStream(write.table, self._copies(changes), Meter("Result", ""))
        stream.readers.append(self._meter)
        with closing(MeteredStream(write.schema, write.run([stream]), self._meter)) as returned:
            for batch in returned:
                ones = pa.array(np.ones(batch.num_rows, dtype=np.int64))
                yield batch_of([*batch.columns, ones], batch.num_rows, self._schema)
        for _ in changes:
            """A write that leaves its table as it is reads no rows, but the epoch's changes have to be computed."""

    def _copies(self, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each row as often as its weight says."""
        for batch in changes:
            weights = batch.column(batch.num_columns - 1).to_numpy()
            rows = batch_of(batch.columns[:-1], batch.num_rows, self.effect.table)
            deleted = np.flatnonzero(weights < 0)
            if len(deleted):
                raise self._taken_back(rows.slice(int(deleted[0]), 1))
            if (weights == 1).all():
                yield rows
                continue
            if weights.sum(dtype=np.float64) > _MOST_COPIES:
                raise ExecutionError(
                    f"{self.effect.plan_path}: the epoch would write more than {_MOST_COPIES:,} copies of rows: give "
                    "the rows smaller weights",
                    reason="TOO_MANY_COPIES",
                )
            copies = np.repeat(np.arange(len(weights)), weights)
            for start in range(0, len(copies), _ROWS):
                yield rows.take(pa.array(copies[start : start + _ROWS]))

    def _taken_back(self, row: pa.RecordBatch) -> ExecutionError:
        shown = shown_names(dict(zip(row.schema.names, (column[0] for column in row.columns), strict=True)))
        return ExecutionError(
            f"{self.effect.plan_path}: the row {shown} is deleted, but the table that the plan writes keeps its rows: "
            "feed no deletions, or leave the write out and read the changes",
            reason="ROW_TAKEN_BACK",
        )


class Effects:
    """The effects of one epoch: those of its side tables, and then the others. All are committed, or none: if a commit
    fails, the side tables before it are withdrawn. Of the others, only the first one can fail.
    """

    def __init__(self, side_tables: Sequence[Write], others: Sequence[Effect]) -> None:
        self._side_tables = tuple(side_tables)
        self._others = tuple(others)

    def commit(self) -> Written:
        committed: list[Write] = []
        parts: list[Written] = []
        try:
            for table in self._side_tables:
                parts.append(table.commit())
                committed.append(table)
            parts += [effect.commit() for effect in self._others]
        except BaseException:
            for table in reversed(committed):
                table.withdraw()
            raise
        return Written(
            files=sum(part.files for part in parts),
            rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            results=tuple(result for part in parts for result in part.results),
        )

    def drop(self) -> None:
        for effect in (*self._side_tables, *self._others):
            effect.drop()
