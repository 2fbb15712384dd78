"""The moment at which a window of time is final, and the rows that come after it.

Times are whole *ticks*: units of the time column's type. A watermark of the network is in microseconds, or in units of
an integer column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Final, Protocol, TypeAlias

import numpy as np

from ...core.operator import UNBOUNDED
from ..values.change import Numbers

NEVER: Final = -(1 << 63) + 1
"""The tick of a watermark that has not passed anything."""

IDLE: Final = UNBOUNDED - 1
"""The watermark of a source that has no rows for now. It holds no other source back, and says nothing itself."""

MOST: Final = (1 << 63) - 1
"""The greatest tick."""

_FARTHEST: Final = 200_000 * 366 * 86_400 * 10**6
"""The microseconds from 1970 beyond which no calendar is asked."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """The length of a tick: `micros / parts` microseconds; 1 for integers."""

    micros: int = 1
    parts: int = 1

    def at(self, watermark: int) -> int:
        """The tick of a watermark, rounded down. Watermarks beyond all ticks have the last one, or the first one."""
        return max(min(watermark * self.parts // self.micros, MOST), NEVER)

    def watermark(self, tick: int) -> int:
        """The watermark of a tick, rounded down."""
        return max(min(tick * self.micros // self.parts, IDLE - 1), NEVER)


class Closing(Protocol):
    """The end of windows."""

    @property
    def ticks(self) -> Ticks: ...

    @property
    def lag(self) -> int:
        """The most ticks that a column of a later window is behind the watermark."""
        ...


def after_closing(closing: Closing, watermark: int | None) -> int | None:
    """The watermark of windows, by their columns, where that of their rows is this one."""
    if watermark is None or watermark >= IDLE:
        return watermark
    return closing.ticks.watermark(closing.ticks.at(watermark) - closing.lag)


class RowClosing(Closing, Protocol):
    """The end of windows, by the *marks* of rows: the numbers of their slices, or ticks."""

    def first_open(self, ticks: Numbers) -> Numbers:
        """The least mark that is not late at each of these watermarks."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowClosing:
    """Windows of `size` ticks, one every `slide` ticks, window 0 from `offset` on. A window is `length` slices long,
    and begins `step` slices after the window before it. It is final `lateness` ticks after its end. A row is late if a
    window that has its slice is final: so each row is in all of its windows, or in none.
    """

    size: int
    slide: int
    offset: int
    length: int
    step: int
    lateness: int
    ticks: Ticks

    @property
    def lag(self) -> int:
        return self.size + self.lateness

    def last_closed(self, tick: int) -> int:
        """The number of the last window that is final."""
        return (tick - self.offset - self.size - self.lateness) // self.slide

    def first_open(self, ticks: Numbers) -> Numbers:
        since = behind(ticks, self.offset + self.size + self.lateness)
        since = np.minimum(since, MOST - self.slide - self.size)
        begins: Numbers = (since // self.slide + 1) * self.step
        first = self._first_slice
        begins = np.where(since == NEVER, first, np.maximum(begins, first))
        return begins + max(self.length - self.step, 0)

    @property
    def _first_slice(self) -> int:
        """The first slice of the first window that begins after the least 64-bit integer. No window begins before."""
        return max(-((self.offset - NEVER) // self.slide) * self.step, NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarClosing:
    """Windows of `size` months or days of a calendar, one every `slide` of them, window 0 from unit `offset` after 1970
    on. A window is `length` slices long, and begins `step` slices after the window before it. The marks of rows are the
    ticks at which the row's earliest window ends; a window is final `lateness` ticks after its end.
    """

    size: int
    slide: int
    offset: int
    unit: str
    zone: str
    length: int
    step: int
    most: int
    """The most ticks that a window is long."""
    lateness: int
    ticks: Ticks

    @property
    def lag(self) -> int:
        return self.most + self.lateness

    def first_open(self, ticks: Numbers) -> Numbers:
        return behind(ticks, self.lateness) + 1


@dataclass(frozen=True, slots=True)
class DatedClosing:
    """Windows of a calendar, for operators that have slices. `slice_at` gives the number of a tick's slice."""

    calendar: CalendarClosing
    slice_at: Callable[[int], int]

    @property
    def length(self) -> int:
        return self.calendar.length

    @property
    def step(self) -> int:
        return self.calendar.step

    @property
    def lag(self) -> int:
        return self.calendar.lag

    @property
    def ticks(self) -> Ticks:
        return self.calendar.ticks

    def last_closed(self, tick: int) -> int:
        """The number of the last window that is final."""
        calendar = self.calendar
        farthest = min(_FARTHEST * calendar.ticks.parts // calendar.ticks.micros, MOST - 1)
        tick = max(min(tick - calendar.lateness, farthest), -farthest)
        return (self.slice_at(tick) - calendar.length) // calendar.step


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosing:
    """Sessions with less than `gap` ticks between their rows. A row is late if its tick is more than `lateness` ticks
    before the watermark. So a session is final `gap` and `lateness` after its last row.
    """

    gap: int
    lateness: int
    ticks: Ticks

    @property
    def lag(self) -> int:
        return self.lateness

    def last_closed(self, tick: int) -> int:
        """The last tick of a session that is final."""
        return tick - self.gap - self.lateness

    def first_open(self, ticks: Numbers) -> Numbers:
        return behind(ticks, self.lateness)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountClosing:
    """Windows of `size` rows of the same keys, one every `slide` rows, in the order of their ticks. A row is late if
    its tick is more than `lateness` ticks before the watermark. So the rows before that have come.
    """

    size: int
    slide: int
    lateness: int
    ticks: Ticks

    @property
    def lag(self) -> int:
        return self.lateness

    @property
    def length(self) -> int:
        """The slices of a window. Slices are as many rows as `size` and `slide` allow."""
        return self.size // gcd(self.size, self.slide)

    @property
    def step(self) -> int:
        """The slices from a window's first one to that of the next window."""
        return self.slide // gcd(self.size, self.slide)

    def last_closed(self, tick: int) -> int:
        """The last tick all rows of which have come."""
        return tick - self.lateness - 1

    def first_open(self, ticks: Numbers) -> Numbers:
        return behind(ticks, self.lateness)

    def complete(self, rows: Numbers) -> Numbers:
        """The number of whole windows of so many rows."""
        whole: Numbers = np.maximum(rows - self.size, -self.slide) // self.slide + 1
        return whole

    def begun(self, rows: Numbers) -> Numbers:
        """The number of windows that so many rows begin."""
        windows: Numbers = -(-rows // self.slide)
        return windows

    def passed(self, rows: Numbers) -> Numbers:
        """The number of rows, of so many, that no further window needs."""
        needless: Numbers = np.minimum(self.complete(rows), rows // self.slide) * self.slide
        return needless


def end_of_passed(low: int, watermark: int) -> int:
    """The end of the ticks that a watermark has passed, which are those before `low`. At the end of all sources no tick
    is behind the greatest one, so `low` is passed, too.
    """
    return low + (watermark == UNBOUNDED)


def behind(ticks: Numbers, by: int) -> Numbers:
    """The ticks so much earlier; the least or the greatest one where that is beyond it."""
    if by > MOST:
        return np.full_like(ticks, NEVER)
    if by < 0:
        return np.where(ticks > MOST + by, MOST, ticks - by)
    earlier: Numbers = np.where(ticks < NEVER + by, NEVER, ticks - by)
    return earlier


SlicedClosing: TypeAlias = WindowClosing | CalendarClosing
"""Windows that are made of slices, as a plan has them."""

SliceClosing: TypeAlias = WindowClosing | DatedClosing
"""Windows that are made of slices, as an operator has them."""

AnyClosing: TypeAlias = SlicedClosing | SessionClosing | CountClosing
"""The windows of a relation."""
