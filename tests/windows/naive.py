"""Windows of time in plain Python: each row is put into each of its windows, one row at a time."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final
from zoneinfo import ZoneInfo

import substrait.dataframe as sub

Row = tuple[Any, ...]
Values = Sequence[Any]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Spans:
    """Windows in ticks: window 0 begins at `offset`."""

    size: int
    slide: int
    offset: int = 0

    def of(self, time: int) -> Iterator[tuple[int, int]]:
        """The bounds of all windows that have the time."""
        start = time - (time - self.offset) % self.slide
        while start + self.size > time:
            yield start, start + self.size
            start -= self.slide


@dataclass(frozen=True)
class Calendar:
    """Windows of months or days from midnight to midnight in a zone, in ticks of so many microseconds."""

    unit: str
    size: int
    slide: int
    offset: int
    zone: str
    tick: Fraction

    def of(self, time: int) -> Iterator[tuple[int, int]]:
        """The bounds of all windows that have the time."""
        date = EPOCH + timedelta(microseconds=int(time * self.tick))
        unit = (date.year - 1970) * 12 + date.month - 1 if self.unit == "months" else (date - EPOCH).days
        for number in range((unit - self.offset - self.size) // self.slide - 2, (unit - self.offset) // self.slide + 3):
            first = self.offset + number * self.slide
            start, end = self._start(first), self._start(first + self.size)
            if start <= time < end:
                yield start, end

    def _start(self, unit: int) -> int:
        """The tick at which a unit begins. Clocks that skip midnight, or show it twice, have two answers."""
        zone = ZoneInfo(self.zone or "UTC")
        if self.unit == "months":
            midnight = datetime(1970 + unit // 12, unit % 12 + 1, 1, tzinfo=zone)
        else:
            midnight = datetime.combine(EPOCH.date() + timedelta(days=unit), datetime.min.time(), zone)
        answers = (midnight.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        ticks = ((answer - EPOCH) // timedelta(microseconds=1) / self.tick for answer in answers)
        return int(max(ticks))


def windows(
    rows: Sequence[Row],
    spans: Spans | Calendar,
    keys: Sequence[int],
    measures: Sequence[Callable[[Sequence[Row]], Any]],
) -> list[Row]:
    """The windows of rows whose first column is the time in ticks: the bounds, the keys, the measures."""
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        if row[0] is not None:
            for bounds in spans.of(row[0]):
                groups[(*bounds, *(row[key] for key in keys))].append(row)
    return [(*group, *(measure(own) for measure in measures)) for group, own in groups.items()]


def sessions(
    rows: Sequence[Row], gap: int, keys: Sequence[int], measures: Sequence[Callable[[Sequence[Row]], Any]]
) -> list[Row]:
    """The sessions of rows whose first column is the time in ticks: the bounds, the keys, the measures."""
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        if row[0] is not None:
            groups[tuple(row[key] for key in keys)].append(row)
    answers = []
    for group, own in groups.items():
        session: list[Row] = []
        for row in [*sorted(own, key=lambda row: row[0]), None]:
            if session and (row is None or row[0] - session[-1][0] >= gap):
                bounds = session[0][0], session[-1][0] + gap
                answers.append((*bounds, *group, *(measure(session) for measure in measures)))
                session = []
            if row is not None:
                session.append(row)
    return answers


def counted(
    rows: Sequence[Row], spans: Spans, keys: Sequence[int], measures: Sequence[Callable[[Sequence[Row]], Any]]
) -> list[tuple[Row, bool]]:
    """Windows of `spans.size` rows, `spans.slide` rows apart, of rows whose first column is the time in ticks: the
    times of the first and the last row, the keys, the measures; and whether the window is full.
    """
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        if row[0] is not None:
            groups[tuple(row[key] for key in keys)].append(row)
    answers = []
    for group, own in groups.items():
        own.sort(key=lambda row: (row[0], row[2] is None, row[2]))
        for start in range(0, len(own), spans.slide):
            window = own[start : start + spans.size]
            answer = (window[0][0], window[-1][0], *group, *(measure(window) for measure in measures))
            answers.append((answer, len(window) == spans.size))
    return answers


def _present(rows: Sequence[Row]) -> list[Any]:
    return [row[2] for row in rows if row[2] is not None]


def _or_null(function: Callable[[list[Any]], Any]) -> Callable[[Sequence[Row]], Any]:
    return lambda rows: function(_present(rows)) if _present(rows) else None


_v: Final = sub.col("v")

MEASURES: Final[Mapping[str, tuple[Any, Callable[[Sequence[Row]], Any]]]] = {
    "sum": (sub.f.sum(_v), _or_null(sum)),
    "count": (sub.f.count(_v), lambda rows: len(_present(rows))),
    "least": (sub.f.min(_v), _or_null(min)),
    "greatest": (sub.f.max(_v), _or_null(max)),
    "mean": (sub.f.avg(sub.col("v").cast(sub.fp64)), _or_null(statistics.fmean)),
    "average": (sub.f.avg(_v), _or_null(lambda values: math.trunc(Fraction(sum(values), len(values))))),
    "all large": (sub.f.bool_and(_v > sub.lit(2)), _or_null(lambda values: all(value > 2 for value in values))),
    "large": (sub.f.count(_v).filter(_v > sub.lit(2)), lambda rows: sum(value > 2 for value in _present(rows))),
}
"""Measures of the column `v`, the third one, that are put together from the states of slices."""

WHOLE: Final[Mapping[str, tuple[Any, Callable[[Sequence[Row]], Any]]]] = {
    "distinct": (sub.f.count(_v).distinct(), lambda rows: len(set(_present(rows)))),
    "different": (sub.f.sum(_v).distinct(), _or_null(lambda values: sum(set(values)))),
    "texts": (
        sub.f.string_agg(sub.col("v").cast(sub.string), sub.lit(",")).order_by("v"),
        _or_null(lambda values: ",".join(map(str, sorted(values)))),
    ),
}
"""Measures that have to see all rows of a window."""
