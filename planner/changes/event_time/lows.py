"""The least values that columns can have in later epochs, as functions of the watermark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from ....operators.changes.event_time.window_closing import CalendarClosing, Ticks, WindowClosing
from ... import ir
from ...analysis.rising import Rising, put_in
from ...functions.added_calls import call
from ...ir import types as t
from ...ir.building import INT64, int64, project
from ..change_nodes import FloorSql
from ..rendering import leaf, render

_DAY: Final = 86_400_000_000
_CLOCKS: Final = 2 * _DAY
"""More microseconds than clocks of any zone were ever set back."""
_MANY: Final = 4
"""Columns whose least value is the least of more terms than this have none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """A value of column 0, which is the moment `behind` ticks before the watermark, of the type `time`."""

    expression: ir.Expression
    time: t.Type
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Low:
    """The least value of a column: the least of its terms. Without terms the column has no values in later epochs.

    `sources` are those whose watermark it follows. Watermarks of other sources say nothing about it, not even where
    they are earlier: a source that is idle holds no other one back. `judged` is the plan path of the operator that took
    late rows out by this column's time.
    """

    sources: frozenset[str]
    ticks: Ticks
    terms: tuple[Term, ...]
    judged: str = ""

    def put_into(self, rising: Rising) -> Low | None:
        """The least value of an expression that rises with the column."""
        slack = _CLOCKS * self.ticks.parts // self.ticks.micros + 1 if rising.zoned else 0
        if slack and any(isinstance(term.time, t.Integer) for term in self.terms):
            return None
        terms = (
            replace(term, expression=put_in(rising.expression, term.expression), behind=term.behind + slack)
            for term in self.terms
        )
        return replace(self, terms=tuple(terms))

    def nearer(self, ticks: int) -> Low:
        """The least value if the watermark is so much earlier than the one before."""
        terms = tuple(replace(term, behind=term.behind - ticks) for term in self.terms)
        return replace(self, terms=terms, judged="")

    def goes_with(self, other: Low) -> bool:
        """Tests whether both follow the same watermark, of the same unit."""
        return self.sources == other.sources and self.ticks == other.ticks

    def floor(self, column: int, type_: pa.DataType, plan_path: str) -> FloorSql | None:
        """The floor of a column of kept rows; None if there is none, or the column has no numbers."""
        if not self.terms or not _has_numbers(type_):
            return None
        base = leaf((INT64,), plan_path)
        (tick,) = (ir.Field(index=0, type=INT64),)
        values = [put_in(term.expression, _moment(tick, term)) for term in self.terms]
        names = [f"v{at}" for at in range(len(values))]
        inner = render(project(base, values), [base])
        sql = f"SELECT least({', '.join(names)}) FROM ({inner}) AS lows({', '.join(names)})"
        return FloorSql(column=column, sql=sql, type=type_, ticks=self.ticks)


NO_VALUES: Final = Low(sources=frozenset(), ticks=Ticks(), terms=())
"""The column of nulls, and a column of rows that come in the first epoch alone."""


def least(lows: Iterable[Low | None]) -> Low | None:
    """The least value of a column that has the values of all of these columns; None if one has no least value."""
    terms: dict[Term, None] = {}
    first: Low | None = None
    for low in lows:
        if low is None or (first is not None and low.terms and not low.goes_with(first)):
            return None
        if low.terms:
            first = low
            terms |= dict.fromkeys(low.terms)
    if first is None:
        return NO_VALUES
    return replace(first, terms=tuple(terms), judged="") if len(terms) <= _MANY else None


def low_number(closing: WindowClosing | CalendarClosing, sources: frozenset[str]) -> Low:
    """The least number of a window whose bounds the watermark has not passed."""
    if isinstance(closing, WindowClosing):
        time: t.Type = INT64
        slices: tuple[ir.Literal, ...] = (int64(closing.slide), int64(closing.offset))
        name = "time_slice"
    else:
        time = _time_of(closing)
        texts = (ir.Literal(value=text, type=t.String(nullable=False)) for text in (closing.unit, closing.zone))
        slices = (int64(closing.slide), int64(closing.offset), *texts)
        name = "calendar_slice"
    number = call(name, ir.Field(index=0, type=time), *slices)
    return Low(sources=sources, ticks=closing.ticks, terms=(Term(expression=number, time=time, behind=0),))


def _time_of(closing: CalendarClosing) -> t.Type:
    ticks = closing.ticks
    if ticks.micros == _DAY:
        return t.Date(nullable=False)
    precision = 6 + len(str(ticks.parts)) - len(str(ticks.micros))
    kind = t.TimestampTz if closing.zone else t.Timestamp
    return kind(precision=precision, nullable=False)


def _moment(tick: ir.Field, term: Term) -> ir.Expression:
    """The moment so many ticks before a tick."""
    earlier = call("subtract", tick, int64(term.behind)) if term.behind else tick
    if isinstance(term.time, t.Integer):
        return earlier if t.required(term.time) == INT64 else ir.Cast(operand=earlier, type=t.required(term.time))
    return call("slice_start", earlier, int64(1), ir.Literal(value=0, type=t.required(term.time)))


def _has_numbers(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (kinds.is_integer, kinds.is_floating, kinds.is_date32, kinds.is_timestamp))
