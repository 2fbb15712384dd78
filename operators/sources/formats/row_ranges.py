"""Cutting a file at its row groups (or record batches), and reading a range of rows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pyarrow as pa

from ....proto.errors import SplitError
from ...core.piece import FilePiece
from .format import PIECE_ROWS

Range = tuple[int, int]


def cut(piece: FilePiece, counts: Sequence[int], sizes: Sequence[int] | None = None) -> tuple[FilePiece, ...]:
    """`piece` cut at groups of `counts` rows (and `sizes` bytes), small ones joined. Bounds are checked."""
    bounds = list(pairwise(accumulate(counts, initial=0)))
    total = sum(counts)
    bytes_per_row = sum(sizes or ()) / max(total, 1)
    pieces = []
    for start, end in _joined(_asked(piece, bounds, total)):
        pieces.append(
            replace(
                piece,
                rows=(start, end),
                row_groups=None,
                row_count=end - start,
                file_rows=total,
                file_groups=len(counts),
                byte_count=round((end - start) * bytes_per_row) if sizes is not None else None,
            )
        )
    return tuple(pieces)


def _asked(piece: FilePiece, bounds: Sequence[Range], total: int) -> Iterator[Range]:
    if piece.row_groups is not None:
        for group in piece.row_groups:
            if group >= len(bounds):
                raise SplitError(
                    f"{piece.path} ({piece.origin}) has no row group {group}; there are {len(bounds)}, counted from 0",
                    reason="OUT_OF_BOUNDS",
                )
            yield bounds[group]
        return
    first, last = piece.rows if piece.rows is not None else (0, total)
    if last > total:
        raise SplitError(
            f"{piece.path} ({piece.origin}) has {total} rows, and rows {first} to {last} reach beyond its end",
            reason="OUT_OF_BOUNDS",
        )
    for start, end in bounds:
        if max(start, first) < min(end, last):
            yield max(start, first), min(end, last)


def _joined(ranges: Iterator[Range]) -> Iterator[Range]:
    """The ranges, with neighbours joined up to `PIECE_ROWS` rows. One empty range where there is none, so that the file
    is still checked.
    """
    held: Range | None = None
    for start, end in ranges:
        if held is not None and held[1] == start and end - held[0] <= PIECE_ROWS:
            held = held[0], end
            continue
        if held is not None:
            yield held
        held = start, end
    yield held if held is not None else (0, 0)


def within(batches: Iterator[pa.RecordBatch], first_row: int, rows: Range) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The part inside `rows` of batches that begin at row `first_row` of the file, each batch with the number of its
    first row.
    """
    start, end = rows
    at = first_row
    for batch in batches:
        low, high = max(start, at), min(end, at + batch.num_rows)
        if low < high:
            yield low, batch if high - low == batch.num_rows else batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= end:
            return
