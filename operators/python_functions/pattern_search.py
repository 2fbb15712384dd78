"""The search of one long text for the matches of a pattern, by DuckDB's own engine, RE2, in parts that take some tenths
of a second each.

The text is cut behind characters that no match can have. A piece that is still long is searched in windows, if matches
have a greatest length. Where a repeated search might read it again and again, each search goes for one match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from .re2_cost import SEARCH_STEPS, STEPS_AT_ONCE, cost_of

GIVEN: Final = "given"
"""The relation of a statement that a function asks DuckDB."""

SCHEMA: Final = pa.schema([("text", pa.string()), ("pattern", pa.string()), ("argument", pa.string())])
"""The columns of this relation."""

Ask: TypeAlias = Callable[[str, pa.Table], pa.Table]
"""Runs a SELECT over the relation `GIVEN`, and gives its rows in order."""

Steps: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_BLOCK: Final = 1 << 20
"""The characters of a text in which places to cut it are looked for at once."""

LISTED: Final = 8 << 20
"""The most characters of a text of which lists are made: they may take some tens of bytes for each."""

_SHOWN: Final = 100
"""The characters of a pattern that an error shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most steps of what is computed at once, and those of a single search. Places to cut a text are looked for in
    blocks of so many characters.
    """

    at_once: float = STEPS_AT_ONCE
    search: float = SEARCH_STEPS
    block: int = _BLOCK


@dataclass(frozen=True, slots=True)
class Match:
    """A match between two positions, those of characters, with the texts of groups by number."""

    start: int
    end: int
    groups: dict[int, str | None]

    @property
    def is_empty(self) -> bool:
        return self.start == self.end


@dataclass(slots=True)
class _Piece:
    """A piece of the text, from where it has not been searched, and the steps of its searches."""

    begin: int
    end: int
    steps: float


class Search:
    """Finds matches of a pattern in one text, with the texts of `groups`. `repeated`: all will be asked for. They must
    begin and end between characters.
    """

    def __init__(
        self,
        text: str,
        pattern: str,
        groups: Sequence[int],
        check: Callable[[], None],
        ask: Ask,
        limits: Limits,
        *,
        repeated: bool,
    ) -> None:
        self.text = text
        self.cost = cost_of(pattern)
        self._pattern, self._repeated = pattern, repeated
        self._groups = sorted({group for group in groups if 0 < group <= self.cost.groups})
        self._check, self._ask, self._limits = check, ask, limits
        self._width = 1 if text.isascii() else 4
        self._pieces = self._cut()
        self._piece: _Piece | None = None
        self._found: Iterator[Match] = iter(())
        self._next: Match | None = None

    def find(self, start: int) -> Match | None:
        """The first match from a position on, which must be no less than that of the call before."""
        while True:
            while self._next is not None and self._next.start < start:
                self._next = next(self._found, None)
            if self._next is not None:
                return self._next
            if self._piece is None:
                self._piece = next(self._pieces, None)
                if self._piece is None:
                    return None
            self._search_on(self._piece, start)

    def group(self, match: Match, number: int) -> str | None:
        """The text of a group; None where it takes no part in the match."""
        return match.groups.get(number) if number else self.text[match.start : match.end]

    def _search_on(self, piece: _Piece, start: int) -> None:
        """Search the piece, or a part of it: for all matches where they take few steps, else for one."""
        begin, end = max(piece.begin, start), piece.end
        if begin > end or begin == end < len(self.text):
            self._piece = None
            return
        until, stop = end, end
        every = self._repeated and piece.steps <= self._limits.at_once
        if piece.steps > self._limits.at_once:
            if self.cost.most < inf:
                # A match that begins before `until` ends before `stop`.
                longest = int(self.cost.most)
                until = min(begin + max(self._at_once() - longest, longest, 1), end)
                stop = min(until + longest + 1, end)
                most = self._limits.at_once
            else:
                most = self._limits.search if self.cost.overrun < inf and end - begin <= LISTED else 0
            every = self._repeated and self._steps(np.array([stop - begin]))[0] <= most
        limit = until if until < len(self.text) else until + 1
        self._found = self._matches(begin, stop, limit, every=every)
        self._next = next(self._found, None)
        if every or self._next is None:
            piece.begin = until
            if until == end:
                self._piece = None
        else:
            piece.begin = self._next.start

    def _at_once(self) -> int:
        """The characters that may be searched at once."""
        return self.cost.longest(self._limits.at_once, repeated=self._repeated) // self._width

    def _matches(self, begin: int, end: int, limit: int, *, every: bool) -> Iterator[Match]:
        """The matches in a part of the text that begin before `limit`, or the first match. The character before the
        part decides about `^` and `\\b`, its last one about `$`.
        """
        position = begin
        sought = f"((?s:.*?))({self.cost.ended})"
        if begin:
            position -= 1
            sought = rf"(?:\A(?s:.))|{sought}" if every else rf"\A(?s:.){sought}"
        elif not every:
            sought = rf"\A{sought}"
        wholes, lengths, *groups = self._lists(position, end, sought)
        taken = np.maximum(wholes, 1)
        stops = position + np.cumsum(taken) - taken + wholes
        starts = stops - lengths
        is_again = np.zeros(len(stops), np.bool_)
        # Behind an empty match it is found again, with nothing before it.
        is_again[1:] = (lengths[1:] == 0) & (lengths[:-1] == 0) & (stops[1:] == stops[:-1])
        for at in np.flatnonzero((lengths >= 0) & ~is_again & (starts < limit)):
            texts = {group: values[at].as_py() for group, values in zip(self._groups, groups, strict=True)}
            yield Match(int(starts[at]), int(stops[at]), texts)

    def _lists(self, begin: int, end: int, sought: str) -> list[Any]:
        """The lengths of what is passed over with the match behind it, those of the match (-1 for the character before
        the part), and the texts of each group.
        """
        steps = self.cost.search((end - begin) * self._width)
        refuse_long(self.text, self._pattern, steps, self._limits)
        row = pa.table([[self.text[begin:end]], [sought], [""]], schema=SCHEMA)
        lists = [f"regexp_extract_all(text, pattern, {group})" for group in (0, 2, *(g + 2 for g in self._groups))]
        lists[:2] = (f"list_transform({texts}, lambda part: length(part))" for texts in lists[:2])
        if steps <= self._limits.at_once:
            asked = self._asked(", ".join(lists), row)
        elif self._asked("regexp_matches(text, pattern)", row)[0][0].as_py():
            asked = [column for sql in lists for column in self._asked(sql, row)]
        else:
            return [np.empty(0, np.int64)] * 2 + [[] for _ in self._groups]
        wholes, lengths, *groups = (column.combine_chunks().flatten() for column in asked)
        return [wholes.to_numpy(), lengths.fill_null(-1).to_numpy(), *groups]

    def _asked(self, sql: str, row: pa.Table) -> list[pa.ChunkedArray]:
        self._check()
        columns: list[pa.ChunkedArray] = self._ask(f"SELECT {sql} FROM {GIVEN}", row).columns
        return columns

    def _cut(self) -> Iterator[_Piece]:
        """The pieces of the text, of which there is one at least. No match goes from one into the next."""
        begin, size, block = 0, len(self.text), self._limits.block
        while begin < size:
            stop = min(begin + block, size)
            stretches = self._stretches(begin, stop)
            if stop < size:
                stretches = stretches[:-1]  # the last one may go on
            block = self._limits.block if len(stretches) else 2 * block
            for piece in self._grouped(begin, stretches):
                begin = piece.end
                yield piece
        if not size:
            yield _Piece(0, 0, 0)

    def _stretches(self, begin: int, end: int) -> Steps:
        """The lengths of stretches that each end with a character that no match has, if not with the text."""
        row = pa.table([[self.text[begin:end]], [self.cost.stretch], [""]], schema=SCHEMA)
        [lists] = self._asked("list_transform(regexp_extract_all(text, pattern), lambda part: length(part))", row)
        lengths: Steps = lists.combine_chunks().flatten().to_numpy().astype(np.float64)
        return lengths[lengths > 0]

    def _steps(self, lengths: Steps) -> Steps:
        sizes = lengths * self._width
        steps = sizes * float(self.cost.steps)
        return steps + sizes * np.minimum(sizes, self.cost.overrun) * self.cost.again if self._repeated else steps

    def _grouped(self, begin: int, stretches: Steps) -> Iterator[_Piece]:
        """Stretches together, as long as they take few steps. One that takes many is a piece alone."""
        if not len(stretches):
            return
        ends = begin + np.cumsum(stretches).astype(np.int64)
        steps = self._steps(stretches)
        many = steps > self._limits.at_once
        total = np.cumsum(steps)
        is_last = np.append((np.diff(total // max(self._limits.at_once, 1)) > 0) | many[:-1] | many[1:], True)
        before = 0.0
        for at in np.flatnonzero(is_last):
            piece = _Piece(begin, int(ends[at]), total[at] - before)
            begin, before = piece.end, total[at]
            yield piece


def refuse_long(text: str, pattern: str, steps: float, limits: Limits) -> None:
    """Raises `ValueError` where a search in the text takes too many steps."""
    if steps <= limits.search:
        return
    shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
    raise ValueError(
        f"a text of {len(text):,} characters is too long for the pattern {shown!r}: a search may take {steps:,.0f} "
        f"steps, and at most {limits.search:,} are allowed"
    )
