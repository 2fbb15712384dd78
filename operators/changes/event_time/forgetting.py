"""Forgetting: rows below the floor of one of their columns are let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..kept.arrangement import Arrangement
from ..values.rows import Rows
from ..values.value_columns import FixedColumn, Mask
from .floor import Floor, Value

_FEW: Final = 8_192
"""Rows are let go when there are more of them than this, and than twice those that were left the last time."""


class Forgetting:
    """Lets rows of arrangements go by the number in a column of each. To let a row go costs the same however many rows
    are kept.
    """

    def __init__(self, *kept: tuple[Arrangement, int], floor: Floor | None = None) -> None:
        self._kept = kept
        self._floor = floor
        self._left = [0] * len(kept)

    def passed(self, watermark: int | None) -> None:
        """Let rows go that are below the floor at this watermark. It is not asked for before there are many rows."""
        if self._floor is not None and any(self._many(at) for at in range(len(self._kept))):
            low = self._floor.at(watermark)
            if low is not None:
                self.below(low)

    def below(self, low: Value) -> None:
        """Let rows go whose numbers are less than `low`. Rows without a number stay."""
        for at, (arrangement, column) in enumerate(self._kept):
            if self._many(at):
                arrangement.retain(_from(column, low))
                self._left[at] = arrangement.rows

    def _many(self, at: int) -> bool:
        return self._kept[at][0].rows > max(2 * self._left[at], _FEW)


def _from(column: int, low: Value) -> Callable[[Rows], Mask]:
    def stays(rows: Rows) -> Mask:
        values = rows.columns[column]
        if not isinstance(values, FixedColumn):
            raise TypeError(f"column {column} has no numbers")
        stay: Mask = ~(values.values < low)  # not a number is no less
        nulls = values.nulls()
        return stay if nulls is None else stay | nulls

    return stays
