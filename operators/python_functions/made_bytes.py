"""Counts the bytes of the values that a statement makes, before they are made and where they are many.

A statement asks `WIDE_ROWS` about the rows that may have more than `WIDE_FROM` bytes, or `WIDE_OUTPUT` where it may
hand these rows out itself. Narrower rows cost a comparison.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...proto.errors import ExecutionError

WIDE_ROWS: Final = "wide_rows"
WIDE_OUTPUT: Final = "wide_rows_handed_out"
WIDE_FROM: Final = "wide_from()"

_SHARE: Final = 8
"""The values that a statement makes of some rows may take one part in so many of the instance's memory."""

_WAITING_SHARE: Final = 2
"""The values of rows that DuckDB gathers for a batch, which it counts nowhere, may take one part in so many of the
instance's memory. They are many where a filter or a join leaves few rows of those that are computed at once.
"""


class MadeBytes:
    """The counting of one statement, which has so many `guards`: calls of `WIDE_ROWS` and `WIDE_OUTPUT`. With `in_all`
    it counts all rows of a run, else those that DuckDB computes at once.
    """

    def __init__(self, guards: int, memory: int, threads: int) -> None:
        self.in_all = False
        self._guards = guards
        self._most, self._most_waiting = memory // _SHARE, memory // _WAITING_SHARE
        self._at_once = self._most // max(guards * threads, 1)
        self._counted = 0.0
        self._waiting: float | None = None

    def __bool__(self) -> bool:
        """True where the statement makes values that need a guard."""
        return bool(self._guards)

    def wide_from(self, rows: int) -> int:
        """The bytes from which on a row is wide, if DuckDB computes so many rows at once."""
        return self._most // rows

    def begin(self, *, in_all: bool) -> None:
        """Begin a run."""
        self.in_all, self._counted, self._waiting = in_all, 0.0, None

    def handed_out(self, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The batches that DuckDB hands out while it computes the rows of later ones."""
        self._waiting = 0.0
        for batch in batches:
            self._waiting = 0.0
            yield batch

    def count(self, sizes: pa.ChunkedArray, plan_paths: pa.ChunkedArray) -> pa.Array:
        """Count rows of these sizes, made at these places of the plan. Raises `ExecutionError` if they are too many."""
        size, rows = float(pc.sum(sizes).as_py() or 0.0), len(sizes)
        self._counted = self._counted + size if self.in_all else size
        most = self._most if self.in_all else self._at_once
        if self._counted > most:
            row = self._counted if rows == 1 else float(pc.max(sizes).as_py())
            raise _too_many(plan_paths[0].as_py(), row, self._counted, most)
        return pa.nulls(rows, pa.bool_()).fill_null(False)

    def count_output(self, sizes: pa.ChunkedArray, plan_paths: pa.ChunkedArray) -> pa.Array:
        """As `count`, of rows that wait until DuckDB hands them out."""
        answer = self.count(sizes, plan_paths)
        if self._waiting is not None:
            self._waiting += float(pc.sum(sizes).as_py() or 0.0)
            if self._waiting > self._most_waiting:
                raise _too_many_waiting(plan_paths[0].as_py(), self._waiting, self._most_waiting)
        return answer


def _too_many(plan_path: str, row: float, size: float, most: int) -> ExecutionError:
    if row > most:
        return ExecutionError(
            f"{plan_path}: makes up to {row:,.0f} bytes of texts and lists of one row; at most {most:,} are allowed "
            f"with this memory_limit: make shorter values, or raise memory_limit",
            reason="ROW_TOO_LARGE",
        )
    return ExecutionError(
        f"{plan_path}: makes up to {size:,.0f} bytes of texts and lists of rows that DuckDB computes at once; at most "
        f"{most:,} are allowed with this memory_limit: make shorter values, or raise memory_limit",
        reason="MEMORY_LIMIT",
    )


def _too_many_waiting(plan_path: str, size: float, most: int) -> ExecutionError:
    return ExecutionError(
        f"{plan_path}: makes up to {size:,.0f} bytes of texts and lists of rows that DuckDB hands out at once; at most "
        f"{most:,} are allowed with this memory_limit: make shorter values, or raise memory_limit",
        reason="MEMORY_LIMIT",
    )
