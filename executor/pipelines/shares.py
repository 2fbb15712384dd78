"""The shares and morsels of a source's pieces that each channel of a pipeline reads; functions of piece sizes alone.

A pipeline that starts at the seal gives each channel a *share*: consecutive rows, so that whole files stay together and
a channel has at most two parts of files. A pipeline that starts with its pieces deals *morsels* to one channel after
the other. A morsel joins neighbouring pieces, because each morsel is a statement of its own, which costs milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from ...operators.core.blocks import BLOCK_ROWS
from ...operators.core.piece import InlinePiece, Piece
from ...operators.sources.formats.arrow import Inline
from ...operators.sources.formats.format import PIECE_ROWS
from ...operators.sources.split_pieces import estimated_rows

Share: TypeAlias = tuple[Piece, ...]

_SMALL_PART: Final = 8
"""An inline split smaller than this part of a share is not cut ..."""
_MANY_BLOCKS: Final = 8
"""... and one with at least this many blocks is cut between blocks only."""
_HANDS_EACH: Final = 4
_LARGEST_HAND: Final = 1_000_000


def shares(pieces: Sequence[Piece], channels: int) -> tuple[Share, ...]:
    """One share for each channel, in order, with rows as even as the cuts allow.

    Cuts are between pieces, which are row groups or runs of record batches if the format has them, and inside inline
    splits that are large for a share.
    """
    starts = list(accumulate((estimated_rows((piece,)) for piece in pieces), initial=0))
    total = starts[-1]
    if channels == 1 or not total:
        return (tuple(pieces), *[()] * (channels - 1))
    inner = [
        _nearest_cut(pieces, starts, total * channel // channels, total // channels) for channel in range(1, channels)
    ]
    cuts = [0, *inner, total]
    dealt: list[list[Piece]] = [[] for _ in range(channels)]
    for piece, (start, end) in zip(pieces, pairwise(starts), strict=True):
        channel = min(bisect_right(cuts, start), channels) - 1
        dealt[channel].append(_part(piece, 0, min(end, cuts[channel + 1]) - start))
        while end > cuts[channel + 1]:
            channel += 1
            low, high = cuts[channel], min(end, cuts[channel + 1])
            if low < high:
                dealt[channel].append(_part(piece, low - start, high - start))
    return tuple(tuple(share) for share in dealt)


def morsels(pieces: Sequence[Piece], channels: int) -> Iterator[Share]:
    """The pieces in order: neighbours joined, large inline splits cut between blocks."""
    most = _hand_rows(estimated_rows(pieces), channels)
    morsel: list[Piece] = []
    rows = 0
    for piece in _small(pieces):
        size = estimated_rows((piece,))
        if morsel and rows + size > most:
            yield tuple(morsel)
            morsel, rows = [], 0
        morsel.append(piece)
        rows += size
    if morsel:
        yield tuple(morsel)


def _hand_rows(rows: int, channels: int) -> int:
    """The rows of a morsel: a few morsels for each channel, none small, and none so long that other channels wait."""
    return max(PIECE_ROWS, min(_LARGEST_HAND, rows // (channels * _HANDS_EACH)))


def _small(pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        rows = estimated_rows((piece,))
        if not _inline(piece) or rows <= PIECE_ROWS:
            yield piece
            continue
        for start in range(0, rows, BLOCK_ROWS):
            yield _part(piece, start, min(start + BLOCK_ROWS, rows))


def _nearest_cut(pieces: Sequence[Piece], starts: Sequence[int], row: int, share: int) -> int:
    """The position nearest to `row` where the pieces may be cut."""
    at = min(bisect_right(starts, row), len(pieces)) - 1
    piece, start, end = pieces[at], starts[at], starts[at + 1]
    if _inline(piece) and (end - start) * _SMALL_PART > share:
        if end - start < _MANY_BLOCKS * BLOCK_ROWS:
            return row
        inside = start + (row - start + BLOCK_ROWS // 2) // BLOCK_ROWS * BLOCK_ROWS
        return min(inside, end)
    return start if row - start <= end - row else end


def _inline(piece: Piece) -> bool:
    """True for rows that came with a call, in memory or in the file that was made of them: both are cut alike."""
    return isinstance(piece, InlinePiece) or (piece.format == Inline.name and piece.rows is not None)


def _part(piece: Piece, start: int, end: int) -> Piece:
    """Rows `start` to `end` of an inline piece. Other pieces are never cut inside."""
    if not _inline(piece) or (start, end) == (0, piece.row_count):
        return piece
    assert piece.rows is not None
    first = piece.rows[0]
    return replace(piece, rows=(first + start, first + end), row_count=end - start)
