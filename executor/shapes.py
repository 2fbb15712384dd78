"""How a source is fed in an epoch: what the planner makes pipelines for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..operators.column import Column
from ..operators.piece import Piece
from ..operators.splits import estimated_rows, native
from ..planner.pipelines import Feed, SourceShape

NOTHING = SourceShape(feed=Feed.STREAM, size_class=0)


def shape_of(pieces: Sequence[Piece], columns: Sequence[Column]) -> SourceShape:
    """The shape of opened pieces. It depends on them alone."""
    if not pieces:
        return NOTHING
    return SourceShape(feed=_feed(pieces, columns), size_class=size_class(estimated_rows(pieces)))


def size_class(rows: int) -> int:
    """The power of ten at or above so many rows; 0 for none."""
    return 10 ** len(str(rows - 1)) if rows > 1 else rows


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


def _feed(pieces: Sequence[Piece], columns: Sequence[Column]) -> Feed:
    return Feed.FILES if native(pieces, columns) else Feed.STREAM
