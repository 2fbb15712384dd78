"""The shape of a source in an epoch, which the planner makes pipelines for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from ...operators.core.column import Column, Slices
from ...operators.core.piece import FilePiece, InlinePiece, Piece
from ...operators.core.sizes import fixed_row_bytes
from ...operators.duckdb.long_values import sortable_text_bytes, unspilled_bytes
from ...operators.sources.split_pieces import estimated_rows, native
from ...planner.physical.pipelines import NOTHING, Feed, SourceShape
from ...planner.physical.size_classes import size_class
from .slice_cuts import are_even

_FEWEST_PIECES: Final = 2
_MOST_OVERLAP: Final = 1.25
#: DuckDB reads rows whose texts take no more bytes, whatever the memory.
_NARROW: Final = 256
#: Of rows with no more bytes, 2,048 are few.
_NARROW_ROW: Final = 128


def shape_of(
    pieces: Sequence[Piece], columns: Sequence[Column], channels: int = 1, channel_memory: int | None = None
) -> SourceShape:
    """The shape of opened pieces. It depends on them, on the number of channels and on a channel's memory alone.

    If that memory is given, rows whose texts are too wide for a sort in DuckDB come as a stream: long texts of streams
    stay outside of DuckDB. Over several channels the planner weighs sources against each other; powers of ten are too
    coarse for that.
    """
    if not pieces:
        return NOTHING
    feed = _feed(pieces, columns)
    if feed is Feed.FILES and channel_memory is not None and _are_wide(pieces, columns, channel_memory):
        feed = Feed.STREAM
    rows = size_class(estimated_rows(pieces), channels)
    size = size_class(sum(map(piece_bytes, pieces)), channels) if channels > 1 else 0
    if feed is Feed.STREAM:
        return _stream_shape(rows, size)
    clustered = clusters(pieces, columns)
    return SourceShape(
        feed=feed,
        size_class=rows,
        clustered=clustered,
        rising=frozenset(name for name in clustered if _rises(key_bounds(pieces, name))),
        sliced=frozenset(_sliced(pieces, columns, channels)),
        narrow=_widest(pieces) <= _NARROW_ROW,
        byte_class=size,
    )


@lru_cache
def _stream_shape(rows: int, size: int) -> SourceShape:
    return SourceShape(feed=Feed.STREAM, size_class=rows, byte_class=size)


def clusters(pieces: Sequence[Piece], columns: Sequence[Column]) -> frozenset[str]:
    """The keys by which the pieces nearly separate: few pieces have values in any one range."""
    keys = (column for column in columns if column.key and kinds.is_integer(column.type))
    return frozenset(column.name for column in keys if _clustered(key_bounds(pieces, column.name)))


def _sliced(pieces: Sequence[Piece], columns: Sequence[Column], channels: int) -> Iterator[tuple[str, Slices]]:
    """The slices of columns between which the pieces can be cut into even parts that few pieces lie in two of."""
    for column in columns if channels > 1 else ():
        bounds = key_bounds(pieces, column.name) if column.slices else None
        if bounds is not None and _clustered(bounds):
            yield from ((column.name, slices) for slices in column.slices if are_even(bounds, channels, slices))


def key_bounds(pieces: Sequence[Piece], key: str) -> list[tuple[int, int, int]] | None:
    """The least and greatest value of a key in each piece that may have rows, and the piece's rows; None if such a
    piece does not tell.
    """
    bounds = []
    for piece in pieces:
        if isinstance(piece, FilePiece) and piece.row_count == 0:
            continue
        bound = bound_of(piece, key) if isinstance(piece, FilePiece) else None
        if bound is None:
            return None
        _, low, high = bound
        bounds.append((low, high, piece.row_count or 0))
    return bounds


def bound_of(piece: FilePiece, key: str) -> tuple[str, int, int] | None:
    """The name that a key has in the piece's file, and its least and greatest value there."""
    bounds = [bound for bound in piece.key_bounds if bound[0].casefold() == key.casefold()]
    return bounds[0] if len(bounds) == 1 else None


def _clustered(bounds: Sequence[tuple[int, int, int]] | None) -> bool:
    if not bounds or len(bounds) < _FEWEST_PIECES:
        return False
    span = max(high for _, high, _ in bounds) - min(low for low, _, _ in bounds)
    return sum(high - low for low, high, _ in bounds) <= span * _MOST_OVERLAP


def _rises(bounds: Sequence[tuple[int, int, int]] | None) -> bool:
    return bounds is not None and all(one[1] <= two[0] for one, two in pairwise(bounds))


def same_feed(pieces: Sequence[Piece], columns: Sequence[Column]) -> Iterator[list[Piece]]:
    """Runs of pieces that are read in the same way."""
    group: list[Piece] = []
    feed: Feed | None = None
    for piece in pieces:
        mine = _feed((piece,), columns)
        if group and mine is not feed:
            yield group
            group = []
        feed = mine
        group.append(piece)
    if group:
        yield group


def _are_wide(pieces: Sequence[Piece], columns: Sequence[Column], memory_limit: int) -> bool:
    fixed = sum(fixed_row_bytes(pa.schema([pa.field("", column.type)])) or 0 for column in columns)
    if _widest(pieces) - fixed <= max(_NARROW, sortable_text_bytes(memory_limit)):
        return False
    files = (piece for piece in pieces if isinstance(piece, FilePiece))
    return sum((piece.row_count or 0) * (piece.row_bytes or 0) for piece in files) > unspilled_bytes(memory_limit)


def piece_bytes(piece: Piece) -> int:
    """About the bytes of an opened piece's rows: in memory where the format tells, else in the file."""
    if isinstance(piece, InlinePiece):
        return piece.byte_count or 0
    if piece.row_bytes is not None:
        return piece.row_bytes * (piece.row_count or 0)
    return piece.byte_count if piece.byte_count is not None else piece.version.size


def _widest(pieces: Sequence[Piece]) -> int:
    return max((piece.row_bytes or 0 for piece in pieces if isinstance(piece, FilePiece)), default=0)


def _feed(pieces: Sequence[Piece], columns: Sequence[Column]) -> Feed:
    return Feed.FILES if native(pieces, columns) else Feed.STREAM
