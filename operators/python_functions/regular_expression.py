"""Regular expressions that may take long. DuckDB's own engine, RE2, cannot be interrupted while it searches the rows
that DuckDB computes at once. So DuckDB gets such rows here in parts that take some tenths of a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import eq
from time import monotonic
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core import quoting
from .pattern_search import GIVEN, SCHEMA, Ask, Limits, Matches, Search, Steps, refuse_long, short_reaches
from .re2_cost import COMPILED, PatternCost, cost_of, rough_steps
from .replacements import pieces

REGULAR_EXPRESSION: Final = "regular_expression"
"""The function in SQL: `regular_expression(how, text, pattern, argument)` gives a list of texts. `how` is a key of
`_WHOLE`, a colon, and any text. The argument is the number of a group for `extract` and `all`, the new text for
`replace` and `replace_all`. `matches` gives one text, or none.
"""

_WHOLE: Final = {
    "matches": "CASE WHEN regexp_matches(text, {pattern}) THEN [''] ELSE [] END",
    "extract": "[regexp_extract(text, {pattern}, {argument})]",
    "all": "regexp_extract_all(text, {pattern}, CAST(argument AS INTEGER))",
    "split": "regexp_split_to_array(text, {pattern})",
    "replace": "[regexp_replace(text, {pattern}, argument)]",
    "replace_all": "[regexp_replace(text, {pattern}, argument, 'g')]",
}
_REPEATED: Final = frozenset({"all", "split", "replace_all"})
_TEXTS: Final = pa.list_(pa.string())
_LIMITS: Final = Limits()
_ALONE: Final = 10
"""A row alone may take so many times the steps of rows together."""

_SECONDS: Final = 0.1
"""The seconds that rows together should take."""
_MORE: Final = 4
"""Rows together have so many times the steps of those before, at most."""

_FEW: Final = 8
"""To look closer at a row is worth it if it takes more than one part in so many of the steps."""
_TESTED: Final = 3
"""The test takes so many times the steps of a search."""


def regular_expression(
    hows: pa.ChunkedArray,
    texts: pa.ChunkedArray,
    patterns: pa.ChunkedArray,
    arguments: pa.ChunkedArray,
    check: Callable[[], None],
    ask: Ask,
    limits: Limits = _LIMITS,
) -> pa.Array:
    """The lists of texts, one for each row; all rows have the same `how`. `check` is called between what is computed at
    once, to end what has been interrupted. Raises `ValueError` for a text that is too long, and what `ask` raises.
    """
    rows = pa.table({"text": texts, "pattern": patterns, "argument": arguments}).cast(SCHEMA)
    known = pc.and_(pc.and_(pc.is_valid(texts), pc.is_valid(patterns)), pc.is_valid(arguments))
    complete = rows.filter(known)
    if not complete.num_rows:
        return pa.nulls(len(texts), _TEXTS)
    work = _Work(hows[0].as_py().partition(":")[0], complete, check, ask, limits)
    lists = pa.concat_arrays([chunk.cast(_TEXTS) for part in work.lists() for chunk in part])
    positions = np.cumsum(known.to_numpy()) - 1
    return lists.take(pa.array(positions, mask=~known.to_numpy()))


@dataclass(frozen=True, slots=True)
class _Work:
    """Rows without nulls."""

    how: str
    rows: pa.Table
    check: Callable[[], None]
    ask: Ask
    limits: Limits

    def lists(self) -> Iterator[Sequence[pa.Array]]:
        """The lists of all rows, in order."""
        distinct = pc.unique(self.rows["pattern"]).to_pylist()
        sql = f"SELECT {self._whole(_pattern(distinct))} FROM {GIVEN}"
        if len(distinct) > 1:
            steps = self._rough_steps()
            if steps.max() <= self.limits.at_once / _FEW:
                yield from self._together(sql, self.rows, steps)
                return
        steps = self._steps(self.rows, distinct)
        if len(distinct) > 1:
            steps += np.array([cost_of(pattern).compiled for pattern in self.rows["pattern"].to_pylist()])
        begin = 0
        for at in [*np.flatnonzero(steps > _ALONE * self.limits.at_once).tolist(), len(steps)]:
            yield from self._together(sql, self.rows.slice(begin, at - begin), steps[begin:at])
            if at < len(steps):
                self.check()
                yield [self._alone(self.rows.slice(at, 1))]
            begin = at + 1

    def _rough_steps(self) -> Steps:
        """A bound on the steps of each row: to read many patterns takes longer than to search few bytes for them."""
        sizes = pc.binary_length(self.rows["text"]).to_numpy().astype(np.float64)
        at_byte: Steps = np.array([*map(rough_steps, self.rows["pattern"].to_pylist())])
        at_byte *= COMPILED + sizes * (1 + (self.how in _REPEATED) * sizes)
        return at_byte

    def _steps(self, rows: pa.Table, distinct: Sequence[str]) -> Steps:
        """The steps of each row's search."""
        costs = [cost_of(pattern) for pattern in distinct]
        which = pc.index_in(rows["pattern"], pa.array(distinct, pa.string())).to_numpy()
        sizes = pc.binary_length(rows["text"]).to_numpy().astype(np.float64)
        once: Steps = sizes * np.array([cost.steps for cost in costs], np.float64)[which]
        if self.how not in _REPEATED:
            return once
        overrun = np.array([cost.overrun for cost in costs])[which]
        again = np.array([cost.again for cost in costs], np.float64)[which]
        # In vain it reads no more for each match than the whole text.
        overrun = np.minimum(overrun, _most_matches(rows["text"], costs[0]) if len(distinct) == 1 else sizes)
        if len(distinct) == 1 and costs[0].early and not costs[0].in_bytes:
            is_long = once + again * sizes * overrun > self.limits.at_once / _FEW
            may_stay = once + again * sizes * self.limits.overrun <= self.limits.at_once * _ALONE
            tried = np.flatnonzero(is_long & may_stay & (overrun > self.limits.overrun))
            overrun[tried[self._is_short(rows["text"].take(pa.array(tried)), once[tried])]] = self.limits.overrun
        once += again * sizes * overrun
        return once

    def _is_short(self, texts: pa.ChunkedArray, once: Steps) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tests which texts have a short reach."""
        pattern = self.rows["pattern"][0].as_py()
        short: list[bool] = []
        for begin, stop in self._parts(_TESTED * once):
            self.check()
            part = texts.slice(begin, stop - begin).to_pylist()
            short += map(eq, short_reaches(part, pattern, self.limits.reach, self.ask), map(len, part))
        return np.array(short, np.bool_)

    def _together(self, sql: str, rows: pa.Table, steps: Steps) -> Iterator[Sequence[pa.Array]]:
        """The lists of rows of which none takes many steps."""
        for begin, stop in self._parts(steps):
            self.check()
            yield self.ask(sql, rows.slice(begin, stop - begin)).column(0).chunks

    def _parts(self, steps: Steps) -> Iterator[tuple[int, int]]:
        """The bounds of rows that are computed at once. Where the rows before took a small part of the time that their
        steps may take, they are more, up to the steps of a row alone.
        """
        least = most = max(self.limits.at_once, 1)
        sums = np.cumsum(steps)
        begin = 0
        while begin < len(steps):
            before = sums[begin - 1] if begin else 0.0
            stop = max(int(np.searchsorted(sums, before + most, "right")), begin + 1)
            begun = monotonic()
            yield begin, stop
            at_once = (sums[stop - 1] - before) / least
            seconds = (monotonic() - begun) / max(at_once, 1)
            most = least * min(max(_SECONDS / max(seconds, _SECONDS / _ALONE), 1), _MORE * most / least)
            begin = stop

    def _whole(self, pattern: str) -> str:
        argument = int(self.rows["argument"][0].as_py()) if self.how == "extract" else ""
        return _WHOLE[self.how].format(pattern=pattern, argument=argument)

    def _alone(self, row: pa.Table) -> pa.Array:
        """The list of a row that takes many steps."""
        [[text], [pattern], [argument]] = row.to_pydict().values()
        sql = f"SELECT {self._whole('pattern')} FROM {GIVEN}"
        cost, steps = cost_of(pattern), self._steps(row, [pattern])[0]
        must_be_whole = cost.in_bytes and not text.isascii()
        if must_be_whole or (cost.early is None and steps <= self.limits.search):
            refuse_long(text, pattern, steps, self.limits)
            return self.ask(sql, row).column(0).combine_chunks()
        new = argument if self.how.startswith("replace") else "0"
        self.ask(sql, pa.table([[""], [pattern], [new]], schema=SCHEMA))  # raises the errors that DuckDB has
        match self.how:
            case "extract" | "all":
                groups = [int(argument)]
            case "replace" | "replace_all":
                groups = [piece for piece in pieces(argument) if isinstance(piece, int)]
            case _:
                groups = []
        repeated = self.how in _REPEATED
        search = Search(text, pattern, groups, self.check, self.ask, self.limits, repeated=repeated)
        return pa.array([_ANSWERS[self.how](search, argument)], _TEXTS)


def _most_matches(texts: pa.ChunkedArray, cost: PatternCost) -> Steps:
    """The most matches in each text: one for each byte, and for each time that it has a character which they need."""
    most: Steps = pc.binary_length(texts).to_numpy().astype(np.float64)
    for character in cost.needed:
        np.minimum(most, pc.count_substring(texts, character).to_numpy(), out=most)
    return most


def _pattern(distinct: Sequence[str]) -> str:
    """The pattern of rows with these patterns, in SQL: DuckDB compiles a constant once."""
    return quoting.text(distinct[0]) if len(distinct) == 1 else "pattern"


def _first(search: Search) -> Matches | None:
    """The first match, and maybe others; None if there is none."""
    return next((part for part in search.parts() if part.starts), None)


def _matches(search: Search, _: str) -> list[str | None]:
    return [""] if _first(search) is not None else []


def _extract(search: Search, argument: str) -> list[str | None]:
    first = _first(search)
    texts = first.texts(search.text, int(argument)) if first is not None else []
    return [texts[0] or "" if texts else ""]


def _all(search: Search, argument: str) -> list[str | None]:
    texts: list[str | None] = []
    group = int(argument)
    for part in search.parts():
        if group < 0:
            break
        if part.starts and group > search.cost.groups:
            raise ValueError(f"Pattern has {search.cost.groups} groups. Cannot access group {group}")
        texts += part.texts(search.text, group)
    return texts


def _replace(search: Search, argument: str) -> list[str | None]:
    text, first = search.text, _first(search)
    if first is None:
        return [text]
    return [text[: first.starts[0]] + next(_replacements(search, first, pieces(argument))) + text[first.stops[0] :]]


def _replace_all(search: Search, argument: str) -> list[str | None]:
    """An empty match is not replaced where the match before it ends."""
    text, parts, new = search.text, list[str](), pieces(argument)
    at, replaced = 0, -1
    for part in search.parts():
        for start, stop, value in zip(part.starts, part.stops, _replacements(search, part, new), strict=True):
            if start == stop == replaced:
                continue
            parts += text[at:start], value
            at = replaced = stop
    return ["".join([*parts, text[at:]])]


def _replacements(search: Search, part: Matches, new: Sequence[str | int]) -> Iterator[str]:
    """The replacement of each match."""
    columns: list[Iterable[str]] = [repeat("", len(part.starts))]
    for piece in new:
        match piece:
            case str():
                columns.append(repeat(piece, len(part.starts)))
            case group:
                columns.append([text or "" for text in part.texts(search.text, group)])
    return map("".join, zip(*columns, strict=True))


def _split(search: Search, _: str) -> list[str | None]:
    """At an empty match a part has one character."""
    text, size, parts = search.text, len(search.text), list[str | None]()
    at = 0
    for start, stop in chain.from_iterable(part.spans() for part in search.parts()):
        if start < stop or start > at:
            parts.append(text[at:start])
            at = stop
        if at >= size - (start == stop):
            break
        if start == stop:
            parts.append(text[at])
            at += 1
    return [*parts, text[at:]]


_ANSWERS: Final[dict[str, Callable[[Search, str], list[str | None]]]] = {
    "matches": _matches,
    "extract": _extract,
    "all": _all,
    "split": _split,
    "replace": _replace,
    "replace_all": _replace_all,
}
