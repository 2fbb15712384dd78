"""Forgetting: state that a watermark has passed is let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..kept.arrangement import Arrangement
from ..values.rows import Rows
from ..values.value_columns import Mask
from .timed_rows import numbers_of

_FEW: Final = 8_192
"""Rows are let go when there are more of them than this, and than twice those that were left the last time."""


class Forgetting:
    """Lets rows of arrangements go by the number in a column of each. To let a row go costs the same however many rows
    are kept.
    """

    def __init__(self, *kept: tuple[Arrangement, int]) -> None:
        self._kept = kept
        self._left = [0] * len(kept)

    def below(self, low: int) -> None:
        """Let rows go whose numbers are less than `low`."""
        for at, (arrangement, column) in enumerate(self._kept):
            if arrangement.rows > max(2 * self._left[at], _FEW):
                arrangement.retain(_from(column, low))
                self._left[at] = arrangement.rows


def _from(column: int, low: int) -> Callable[[Rows], Mask]:
    return lambda rows: numbers_of(rows, column) >= low
