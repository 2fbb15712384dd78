"""The floor of a column: the least value that rows of later epochs, and their deletions, can have there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .interval_closing import IntervalClosing
from .window_closing import IDLE, SliceClosing, Ticks

Value: TypeAlias = int | float
"""A value of a column of numbers, dates or moments, as its number."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor of a column of kept rows, at each watermark of the operator's inputs. `value_at` gives it for the tick
    of the watermark; None where nothing is known.
    """

    column: int
    ticks: Ticks
    value_at: Callable[[int], Value | None]

    def at(self, watermark: int | None) -> Value | None:
        if watermark is None or watermark >= IDLE:
            return None
        return self.value_at(self.ticks.at(watermark))


def floor_of_slices(closing: SliceClosing) -> Floor:
    """The floor of the first column, the slice of final windows."""
    return Floor(0, closing.ticks, lambda tick: (closing.last_closed(tick) + 1) * closing.step)


def floors_of_sides(closing: IntervalClosing) -> tuple[Floor, Floor]:
    """The floors of the first column of each side of a join, the tick: below them no match can come."""
    left, right = (
        Floor(0, closing.ticks, lambda tick, left=left: closing.needed(tick, left=left))  # type: ignore[misc]
        for left in (True, False)
    )
    return left, right
