"""The search of one long text for the matches of a pattern, by DuckDB's own engine, RE2, in parts that take some tenths
of a second each.

A part of the text is searched with a pattern that also takes the part's end for a match, where a match may go on there.
So all matches before are those of the whole text, and the next part begins where this match does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from ..core import quoting
from .re2_cost import SEARCH_STEPS, STEPS_AT_ONCE, cost_of

GIVEN: Final = "given"
"""The relation of a statement that a function asks DuckDB."""

SCHEMA: Final = pa.schema([("text", pa.string()), ("pattern", pa.string()), ("argument", pa.string())])
"""The columns of this relation."""

Ask: TypeAlias = Callable[[str, pa.Table], pa.Table]
"""Runs a SELECT over the relation `GIVEN`, and gives its rows in order."""

Steps: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_Places: TypeAlias = tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]], list[pa.Array]]
"""Where matches begin, where they end, and the texts of each group."""

_REACH: Final = 256
_GROWTH: Final = 8
"""A part is so many times as long as the one before, if that was too short for a match."""

LISTED: Final = 8 << 20
"""The most characters of a text of which lists are made: they may take some tens of bytes for each."""

_MARKS: Final = [*map(chr, range(1, 32))]
"""Characters that few texts have."""

_SHOWN: Final = 100
"""The characters of a pattern that an error shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most steps of what is computed at once, and those of a single search. A text has a short reach if no match
    may go on for `reach` characters and more up to a character whose place is a multiple of `reach`.
    """

    at_once: float = STEPS_AT_ONCE
    search: float = SEARCH_STEPS
    reach: int = _REACH

    @property
    def overrun(self) -> int:
        """The most characters that a search reads in vain in a text of a short reach."""
        return 2 * self.reach


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches in order: the characters where they begin and end, and the texts of groups by number."""

    starts: list[int]
    stops: list[int]
    groups: dict[int, list[str | None]]

    def spans(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts, self.stops, strict=True)

    def texts(self, text: str, group: int) -> list[str | None]:
        """The texts of a group, in the text that has been searched. Group 0 is the match."""
        return self.groups.get(group, []) if group else [text[start:stop] for start, stop in self.spans()]


def short_reaches(texts: Sequence[str], pattern: str, reach: int, ask: Ask) -> list[int]:
    """The characters at the begin of each text in which its reach is short.

    Where nothing has gone on for `reach` characters up to a place, nothing goes on for twice as many up to the next. So
    it is enough to look at so many.
    """
    slices = [text[max(at - reach, 0) : at + reach] for text in texts for at in range(0, len(text) - reach, reach)]
    if not slices:
        return [*map(len, texts)]
    ends = quoting.text(rf"(?:{cost_of(pattern).early})\z")
    table = pa.table([slices, [""] * len(slices), [""] * len(slices)], schema=SCHEMA)
    lengths = ask(f"SELECT length(regexp_extract(text, {ends})) FROM {GIVEN}", table).column(0).to_numpy()
    short, at = [], 0
    for text in texts:
        checked = max(-(-len(text) // reach) - 1, 0)
        long = np.flatnonzero(lengths[at : at + checked] > reach)
        short.append((int(long[0]) + 1) * reach if len(long) else len(text))
        at += checked
    return short


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
        self._pattern = pattern
        self._groups = sorted({group for group in groups if 0 < group <= self.cost.groups})
        self._check, self._ask, self._limits = check, ask, limits
        self._width = 1 if text.isascii() else 4
        overrun, self._repeated = self.cost.overrun if repeated else 0, repeated
        self._usual, self._most_ahead = (self._longest(read) for read in (overrun, min(overrun, limits.overrun)))
        if self.cost.early is None:
            self._usual, self._repeated = max(len(text), 1), False
        self._ahead = self._most_ahead
        self._mark = next((sign for sign in _MARKS if sign not in text), None) if self.cost.consumes else None

    def parts(self) -> Iterator[Matches]:
        """All matches, in parts, or only the first ones."""
        begin, longer = 0, 0
        while begin <= len(self.text):
            size = longer or self._at_once(begin)
            matches, after = self._part(begin, size, every=self._repeated and not longer)
            yield matches
            longer = 0 if after > begin else self._longer(begin, size)
            begin = after

    def _longest(self, overrun: float) -> int:
        """The characters that may be searched at once."""
        longest = self.cost.longest(self._limits.at_once, overrun) // self._width
        return min(max(longest, 1), LISTED)

    def _at_once(self, begin: int) -> int:
        """The characters from a place on that may be searched at once. It looks for a short reach only as far as may
        be worth it.
        """
        size = self._usual
        if self._ahead > size and begin + size < len(self.text):
            self._check()
            [short] = short_reaches(
                [self.text[begin : begin + self._ahead]], self._pattern, self._limits.reach, self._ask
            )
            size = max(size, short)
        self._ahead = min(_GROWTH * size, self._most_ahead)
        return self._with_few_matches(begin, size)

    def _with_few_matches(self, begin: int, size: int) -> int:
        """The characters from a place on that may be searched at once, if a search reads all of them for each match."""
        while self._repeated and self.cost.needed and begin + size < len(self.text) and 2 * size <= LISTED:
            longer = 2 * size
            matches = min(self.text.count(needed, begin, begin + longer) for needed in self.cost.needed)
            at_character = self.cost.steps + matches * self.cost.again
            if at_character * longer * self._width > self._limits.at_once:
                break
            size = longer
        return size

    def _longer(self, begin: int, size: int) -> int:
        """The characters to search for the first match, as it may not end in so few."""
        self._ahead = 0
        most = self._limits.search / (self.cost.steps * self._width)
        if size >= most:
            steps = self.cost.search((len(self.text) - begin) * self._width)
            refuse_long(self.text, self._pattern, steps, self._limits)
        return int(min(_GROWTH * size, most)) + 1

    def _part(self, begin: int, size: int, *, every: bool) -> tuple[Matches, int]:
        """The matches of a part of the text, or its first match, and the place from where to search on."""
        end = min(begin + size, len(self.text))
        starts, stops, groups = self._matches(begin, end, every=every)
        sure = len(starts) if end == len(self.text) else int(np.searchsorted(stops, end))
        if sure < len(starts):
            after = int(starts[sure])
        elif every or not sure:
            after = len(self.text) + 1
        else:
            after = int(stops[-1] + (starts[-1] == stops[-1]))
        texts = {number: values[:sure].to_pylist() for number, values in zip(self._groups, groups, strict=True)}
        return Matches(starts[:sure].tolist(), stops[:sure].tolist(), texts), after

    def _matches(self, begin: int, end: int, *, every: bool) -> _Places:
        """The matches in a part of the text. The last one may go on behind the part."""
        pattern = self.cost.ended if end == len(self.text) else self.cost.early
        assert pattern is not None
        return (self._marked if self._mark else self._listed)(begin, end, pattern, every=every)

    def _marked(self, begin: int, end: int, pattern: str, *, every: bool) -> _Places:
        """The matches of a pattern that consumes characters: RE2 puts marks around them."""
        first, options = ("pattern", ", 'g'") if every else (r"'\A(?s:.*?)(?:' || pattern || ')'", "")
        groups = [f"regexp_extract_all(text, {first}, {group})" for group in self._groups]
        mark, values = self._mark, [f"regexp_replace(text, pattern, argument{options})", *groups]
        marked, *lists = self._asked(values, begin, end, pattern, rf"{mark}\0{mark}")
        parts = marked[0].as_py().split(mark)
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        bounds = begin + np.cumsum(sizes)
        return bounds[:-1:2], bounds[1::2], [texts.flatten() for texts in lists]

    def _listed(self, begin: int, end: int, pattern: str, *, every: bool) -> _Places:
        """The matches of any pattern. The character before the part decides about `^` and `\\b`."""
        position = begin
        sought = f"((?s:.*?))({pattern})"
        if begin:
            position -= 1
            sought = rf"(?:\A(?s:.))|{sought}" if every else rf"\A(?s:.){sought}"
        elif not every:
            sought = rf"\A{sought}"
        values = [f"regexp_extract_all(text, pattern, {group})" for group in (0, 2, *(g + 2 for g in self._groups))]
        values[:2] = (f"list_transform({texts}, lambda part: length(part))" for texts in values[:2])
        lists = [column.flatten() for column in self._asked(values, position, end, sought)]
        # What is passed over with the match behind it, and the match: -1 for the character before the part.
        wholes, lengths = lists[0].to_numpy(), lists[1].fill_null(-1).to_numpy()
        taken = np.maximum(wholes, 1)
        stops = position + np.cumsum(taken) - taken + wholes
        is_match = lengths >= 0
        # Behind an empty match it is found again, with nothing before it.
        is_match[1:] &= (lengths[1:] != 0) | (lengths[:-1] != 0) | (stops[1:] != stops[:-1])
        kept = pa.array(is_match)
        return (stops - lengths)[is_match], stops[is_match], [texts.filter(kept) for texts in lists[2:]]

    def _asked(self, values: list[str], begin: int, end: int, pattern: str, argument: str = "") -> list[pa.Array]:
        """Values of a part of the text."""
        steps = self.cost.search((end - begin) * self._width)
        refuse_long(self.text, self._pattern, steps, self._limits)
        row = pa.table([[self.text[begin:end]], [pattern], [argument]], schema=SCHEMA)
        columns: list[pa.ChunkedArray] = []
        for sql in [", ".join(values)] if steps <= self._limits.at_once else values:
            self._check()
            columns += self._ask(f"SELECT {sql} FROM {GIVEN}", row).columns
        return [column.combine_chunks() for column in columns]


def refuse_long(text: str, pattern: str, steps: float, limits: Limits) -> None:
    """Raises `ValueError` where a search in the text takes too many steps."""
    if steps <= limits.search:
        return
    shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
    raise ValueError(
        f"a text of {len(text):,} characters is too long for the pattern {shown!r}: a search may take {steps:,.0f} "
        f"steps, and at most {limits.search:,} are allowed"
    )
