"""Ranges of a file's bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class ByteRanges:
    """The bytes in any of the `ranges`, each from its first byte up to the byte behind its last."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def touch(self, start: int, end: int) -> bool:
        """True where any of these bytes is in a range."""
        at = bisect_right(self._ends, start)
        return at < len(self._starts) and self._starts[at] < end

    def cover(self, start: int, end: int) -> bool:
        """True where all of these bytes are in ranges."""
        at = bisect_left(self._ends, end)
        return at < len(self._starts) and self._starts[at] <= start

    @property
    def size(self) -> int:
        """The number of bytes in the ranges."""
        return sum(self._ends) - sum(self._starts)
