"""The values of time at which sources are cut between two slices, so that no channel has a part of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from ...operators.core.column import Slices

Bounds: TypeAlias = tuple[int, int, int]
"""The least and the greatest time of a piece, and its rows."""

_LARGEST_SHARE: Final = 1.25


def slice_starts(pieces: Sequence[Bounds], channels: int, slices: Slices) -> list[int]:
    """The times at which the ranges of the channels after the first one start: beginnings of slices, behind pieces,
    with rows as even as pieces and slices allow. A range that no piece reaches begins behind all pieces.
    """
    total = sum(rows for _, _, rows in pieces)
    end = max(high for _, high, _ in pieces) + 1
    starts: list[int] = []
    passed = 0
    for _, high, rows in sorted(pieces, key=lambda piece: (piece[1], piece[0])):
        passed += rows
        # Nearest to an even cut: another piece would take the range farther beyond it than it is short of it now.
        while len(starts) < channels - 1 and (2 * passed + rows) * channels >= 2 * total * (len(starts) + 1):
            starts.append(min(_slice_from(high + 1, slices), end))
    return starts


def are_even(pieces: Sequence[Bounds], channels: int, slices: Slices) -> bool:
    """Tests whether the channels have about as many of these rows, if the rows of a piece are spread evenly over its
    range.
    """
    total = sum(rows for _, _, rows in pieces)
    least, end = min(low for low, _, _ in pieces), max(high for _, high, _ in pieces) + 1
    ranges = pairwise([least, *slice_starts(pieces, channels, slices), end])
    largest = max(sum(rows * _part(low, high + 1, begin, stop) for low, high, rows in pieces) for begin, stop in ranges)
    return largest * channels <= total * _LARGEST_SHARE


def _slice_from(time: int, slices: Slices) -> int:
    """The beginning of the first slice that does not begin earlier."""
    return slices.origin - (slices.origin - time) // slices.size * slices.size


def _part(low: int, high: int, begin: int, stop: int) -> float:
    return max(0, min(high, stop) - max(low, begin)) / (high - low)
