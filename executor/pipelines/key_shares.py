"""Sources cut by the values of a key: each channel reads the rows in its range, so that equal keys meet there.

All sources that are cut alike have the same ranges. The ranges follow the source with the most rows, so that each
channel gets about equally many of its rows. Ranges between slices of time follow all these sources together. Ranges
depend on the files' footers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TypeAlias

from ...operators.core.column import KeyCut
from ...operators.core.piece import FilePiece, KeyRange, Piece
from ...planner.physical.pipelines import Pipeline, read_from_sources
from .shapes import bound_of, key_bounds
from .slice_cuts import slice_starts

Cut: TypeAlias = tuple[str, KeyCut]
"""A source, and how it is cut."""

CutPieces: TypeAlias = Mapping[Cut, Sequence[Piece]]


def cuts_of(pipelines: Iterable[Pipeline]) -> frozenset[Cut]:
    """The sources that these pipelines read by ranges of keys."""
    nodes = (node for pipeline in pipelines for node in pipeline.nodes)
    reads = (read for node in nodes for read in read_from_sources(node))
    return frozenset((read.source, read.cut) for read in reads if read.cut is not None)


def key_shares(cuts: Iterable[Cut], whole: Mapping[str, Sequence[Piece]], channels: int) -> list[CutPieces]:
    """For each channel, the pieces of every cut with the channel's range of the key."""
    dealt: list[dict[Cut, Sequence[Piece]]] = [{} for _ in range(channels)]
    numbered = sorted(cuts, key=lambda cut: (cut[1].ranges, cut[0], cut[1].key))
    for _, together in groupby(numbered, key=lambda cut: cut[1].ranges):
        alike = list(together)
        bounds = _bounds(alike, whole, channels)
        for source, cut in alike:
            for channel, (low, high) in enumerate(zip((None, *bounds), (*bounds, None), strict=True)):
                pieces = tuple(_in_range(whole[source], cut.key, low, high))
                dealt[channel][source, cut] = pieces if cut.slices is None else tuple(_with_few_conditions(pieces))
    return list(dealt)


def _bounds(alike: Sequence[Cut], whole: Mapping[str, Sequence[Piece]], channels: int) -> list[int]:
    """The values where the ranges after the first one start: behind pieces, with rows as even as pieces allow."""
    known = [bounds for source, cut in alike if (bounds := key_bounds(whole[source], cut.key))]
    if not known:
        return [0] * (channels - 1)
    slices = alike[0][1].slices
    if slices is not None:
        return slice_starts(list(chain.from_iterable(known)), channels, slices)
    pieces = sorted(max(known, key=lambda bounds: sum(rows for _, _, rows in bounds)))
    total = sum(rows for _, _, rows in pieces)
    starts: list[int] = []
    passed = 0
    for _, high, rows in pieces:
        passed += rows
        while len(starts) < channels - 1 and passed * channels >= total * (len(starts) + 1):
            starts.append(high + 1)
    return starts


def _in_range(pieces: Sequence[Piece], key: str, low: int | None, high: int | None) -> Iterator[FilePiece]:
    """The files that have values in the range, whole. Pieces without values are not counted."""
    for _, group in groupby(pieces, key=lambda piece: piece.path if isinstance(piece, FilePiece) else ""):
        file = [(piece, bound) for piece in group if isinstance(piece, FilePiece) and (bound := bound_of(piece, key))]
        met = [(low is None or most >= low) and (high is None or least < high) for _, (_, least, most) in file]
        if any(met):
            for (piece, (name, _, _)), meets in zip(file, met, strict=True):
                rows = piece.row_count if meets else 0
                yield replace(piece, keys=KeyRange(column=name, low=low, high=high), row_count=rows)


def _with_few_conditions(pieces: Sequence[FilePiece]) -> Iterator[FilePiece]:
    """The pieces without bounds that all rows of their file are in: DuckDB tests a condition for every row it reads."""
    for _, group in groupby(pieces, key=lambda piece: piece.path):
        file = list(group)
        bounds = [bound for piece in file if piece.keys and (bound := bound_of(piece, piece.keys.column))]
        least, most = min(low for _, low, _ in bounds), max(high for _, _, high in bounds)
        for piece in file:
            assert piece.keys is not None
            low = piece.keys.low if piece.keys.low is not None and least < piece.keys.low else None
            high = piece.keys.high if piece.keys.high is not None and most >= piece.keys.high else None
            unbounded = low is None and high is None
            yield replace(piece, keys=None if unbounded else replace(piece.keys, low=low, high=high))
