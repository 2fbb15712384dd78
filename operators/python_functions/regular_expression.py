"""Regular expressions that may take long. DuckDB's own engine, RE2, cannot be interrupted while it searches the rows
that DuckDB computes at once. So DuckDB gets such rows here in parts that take some tenths of a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core import quoting
from .pattern_search import GIVEN, LISTED, SCHEMA, Ask, Limits, Match, Search, Steps, refuse_long
from .re2_cost import cost_of
from .replacements import groups_in, rewritten

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

_LOOK: Final = 8
"""The steps at a byte of the search for characters that no match has."""


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
        steps = self._steps(self.rows, distinct)
        if len(distinct) > 1:
            steps += np.array([cost_of(pattern).compiled for pattern in self.rows["pattern"].to_pylist()])
        sql = f"SELECT {self._whole(_pattern(distinct))} FROM {GIVEN}"
        begin = 0
        for at in [*np.flatnonzero(steps > _ALONE * self.limits.at_once).tolist(), len(steps)]:
            yield from self._together(sql, self.rows.slice(begin, at - begin), steps[begin:at])
            if at < len(steps):
                self.check()
                yield [self._alone(self.rows.slice(at, 1))]
            begin = at + 1

    def _steps(self, rows: pa.Table, distinct: Sequence[str]) -> Steps:
        """The steps of each row's search."""
        costs = [cost_of(pattern) for pattern in distinct]
        which = pc.index_in(rows["pattern"], pa.array(distinct, pa.string())).to_numpy()
        sizes = pc.binary_length(rows["text"]).to_numpy().astype(np.float64)
        once: Steps = sizes * np.array([cost.steps for cost in costs], np.float64)[which]
        if self.how not in _REPEATED:
            return once
        overrun = np.array([cost.overrun for cost in costs])[which]
        again = sizes * np.minimum(sizes, overrun)
        if (once + again).sum() > self.limits.at_once:
            # Often a match may have only few of the characters in a row, which is worth to know.
            unbounded = np.flatnonzero((overrun == inf) & (sizes <= LISTED))
            stretches = pa.array([cost.stretch for cost in costs], pa.string()).take(which[unbounded])
            again[unbounded] = self._squares(rows.take(unbounded).set_column(1, "pattern", stretches), sizes[unbounded])
        once += again * np.array([cost.again for cost in costs], np.float64)[which]
        return once

    def _squares(self, rows: pa.Table, sizes: Steps) -> Steps:
        """The sums of the squares of the lengths of the stretches of each text."""
        pattern = _pattern(pc.unique(rows["pattern"]).to_pylist())
        square = "lambda part: CAST(strlen(part) AS DOUBLE) * strlen(part)"
        sql = f"SELECT list_sum(list_transform(regexp_extract_all(text, {pattern}), {square})) FROM {GIVEN}"
        parts = [chunk for part in self._together(sql, rows, _LOOK * sizes) for chunk in part]
        return pa.concat_arrays(parts).to_numpy() if parts else sizes

    def _together(self, sql: str, rows: pa.Table, steps: Steps) -> Iterator[Sequence[pa.Array]]:
        """The lists of rows of which none takes many steps."""
        begin, parts = 0, np.cumsum(steps) // max(self.limits.at_once, 1)
        for stop in [*(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(steps)]:
            if begin < stop:
                self.check()
                yield self.ask(sql, rows.slice(begin, stop - begin)).column(0).chunks
            begin = stop

    def _whole(self, pattern: str) -> str:
        argument = int(self.rows["argument"][0].as_py()) if self.how == "extract" else ""
        return _WHOLE[self.how].format(pattern=pattern, argument=argument)

    def _alone(self, row: pa.Table) -> pa.Array:
        """The list of a row that takes many steps."""
        [[text], [pattern], [argument]] = row.to_pydict().values()
        sql = f"SELECT {self._whole('pattern')} FROM {GIVEN}"
        if cost_of(pattern).in_bytes and not text.isascii():
            refuse_long(text, pattern, self._steps(row, [pattern])[0], self.limits)
            return self.ask(sql, row).column(0).combine_chunks()
        new = argument if self.how.startswith("replace") else "0"
        self.ask(sql, pa.table([[""], [pattern], [new]], schema=SCHEMA))  # raises the errors that DuckDB has
        match self.how:
            case "extract" | "all":
                groups = [int(argument)]
            case "replace" | "replace_all":
                groups = groups_in(argument)
            case _:
                groups = []
        repeated = self.how in _REPEATED
        search = Search(text, pattern, groups, self.check, self.ask, self.limits, repeated=repeated)
        return pa.array([_ANSWERS[self.how](search, argument)], _TEXTS)


def _pattern(distinct: Sequence[str]) -> str:
    """The pattern of rows with these patterns, in SQL: DuckDB compiles a constant once."""
    return quoting.text(distinct[0]) if len(distinct) == 1 else "pattern"


def _matches(search: Search, _: str) -> list[str | None]:
    return [""] if search.find(0) is not None else []


def _extract(search: Search, argument: str) -> list[str | None]:
    match = search.find(0)
    return ["" if match is None else search.group(match, int(argument)) or ""]


def _all(search: Search, argument: str) -> list[str | None]:
    texts: list[str | None] = []
    at, group = 0, int(argument)
    while group >= 0 and at <= len(search.text) and (match := search.find(at)) is not None:
        if group > search.cost.groups:
            raise ValueError(f"Pattern has {search.cost.groups} groups. Cannot access group {group}")
        texts.append(search.group(match, group))
        at = match.end + match.is_empty
    return texts


def _replace(search: Search, argument: str) -> list[str | None]:
    match = search.find(0)
    if match is None:
        return [search.text]
    return [search.text[: match.start] + _rewritten(search, match, argument) + search.text[match.end :]]


def _replace_all(search: Search, argument: str) -> list[str | None]:
    """An empty match is not replaced where the match before it ends."""
    parts: list[str] = []
    at, replaced = 0, -1
    while at <= len(search.text) and (match := search.find(at)) is not None:
        parts.append(search.text[at : match.start])
        at = match.end
        if match.is_empty and match.end == replaced:
            parts.append(search.text[at : at + 1])
            at += 1
        else:
            parts.append(_rewritten(search, match, argument))
            replaced = at
    return ["".join([*parts, search.text[at:]])]


def _split(search: Search, _: str) -> list[str | None]:
    """At an empty match a part has one character."""
    parts: list[str | None] = []
    at, size = 0, len(search.text)
    while at < size and (match := search.find(at)) is not None:
        start, end = match.start, match.end
        if match.is_empty and start == at:
            start = end = at + 1
            if start == size:
                break
        parts.append(search.text[at:start])
        at = end
    return [*parts, search.text[at:]]


def _rewritten(search: Search, match: Match, new: str) -> str:
    return rewritten(new, lambda number: search.group(match, number))


_ANSWERS: Final[dict[str, Callable[[Search, str], list[str | None]]]] = {
    "matches": _matches,
    "extract": _extract,
    "all": _all,
    "split": _split,
    "replace": _replace,
    "replace_all": _replace_all,
}
