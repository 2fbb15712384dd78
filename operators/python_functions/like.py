"""LIKE over long texts with long patterns. DuckDB's own compares each place of the text with all of the pattern, and
nothing can stop it: a text and a pattern of a million characters each take hours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

LIKE: Final = "like_long"
"""The function in SQL: `like_long(text, pattern, escape)` gives a truth value. An empty escape is none."""

LIKE_STEPS: Final = 1_000_000
"""DuckDB's own LIKE may compare so many bytes, which are those of the text times those of the pattern."""

_STEPS: Final = 1_000
"""The steps between two checks."""


def like(
    texts: Sequence[str | None],
    patterns: Sequence[str | None],
    escapes: Sequence[str | None],
    check: Callable[[], None],
) -> pa.Array:
    """The truth values, one for each row. `check` is called again and again, to end what has been interrupted. Raises
    `ValueError` for a wrong escape, as DuckDB does.
    """
    return pa.array([_like(*row, check) for row in zip(texts, patterns, escapes, strict=True)], pa.bool_())


def _like(text: str | None, pattern: str | None, escape: str | None, check: Callable[[], None]) -> bool | None:
    check()
    if text is None or pattern is None or escape is None:
        return None
    if len(escape.encode()) > 1:
        raise ValueError("the escape character of LIKE is empty or one character of ASCII")
    parts = _split(pattern, escape)
    first, last = _segment(parts[0], escape), _segment(parts[-1], escape)
    if not first.is_at(text, 0):
        return False
    if len(parts) == 1:
        return len(text) == first.length
    at = first.length
    for part in parts[1:-1]:
        check()
        segment = _segment(part, escape)
        position = segment.find(text, at, check)
        if position < 0:
            return False
        at = position + segment.length
    start = len(text) - last.length
    return start >= at and last.is_at(text, start)


@dataclass(frozen=True, slots=True)
class _Segment:
    """What stands between two `%`: texts at their offsets, the longest first, with any character between them."""

    pieces: tuple[tuple[int, str], ...]
    length: int

    def is_at(self, text: str, start: int) -> bool:
        """True if the segment stands at this place."""
        fits = start + self.length <= len(text)
        return fits and all(text.startswith(piece, start + offset) for offset, piece in self.pieces)

    def find(self, text: str, start: int, check: Callable[[], None]) -> int:
        """The first place from `start` on where the segment stands; -1 if there is none."""
        if not self.pieces:
            return start if start + self.length <= len(text) else -1
        (offset, longest), *others = self.pieces
        steps = 0
        while (position := text.find(longest, start + offset)) >= 0:
            start = position - offset
            if start + self.length > len(text):
                return -1
            if all(text.startswith(piece, start + at) for at, piece in others):
                return start
            start += 1
            steps += 1 + len(others) + self.length // _STEPS
            if steps >= _STEPS:
                steps = 0
                check()
        return -1


def _split(pattern: str, escape: str) -> list[str]:
    """The pattern between its `%`."""
    if not escape:
        return re.split("%+", pattern)
    parts, at = [], 0
    for sign in re.finditer(f"{re.escape(escape)}.?|%", pattern, re.DOTALL):
        if sign.group() == escape:
            raise ValueError("a pattern of LIKE ends with its escape character")
        if sign.group() == "%":
            parts.append(pattern[at : sign.start()])
            at = sign.end()
    return [*parts, pattern[at:]]


def _segment(segment: str, escape: str) -> _Segment:
    pieces: list[tuple[int, str]] = []
    length = at = 0
    signs = f"{re.escape(escape)}(.)|(_+)" if escape else "(_+)"
    for sign in re.finditer(signs, segment, re.DOTALL):
        if at < sign.start():
            pieces.append((length, segment[at : sign.start()]))
            length += sign.start() - at
        if sign.lastindex != sign.re.groups:
            pieces.append((length, sign[1]))
        length += len(sign[sign.lastindex or 0])
        at = sign.end()
    if at < len(segment):
        pieces.append((length, segment[at:]))
        length += len(segment) - at
    return _Segment(tuple(sorted(pieces, key=lambda piece: -len(piece[1]))), length)
