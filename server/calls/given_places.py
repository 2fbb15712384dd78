"""Bounds the calls that have given their places among a pool's threads to others: each has a thread of its own."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Final

from ...proto.errors import Exhausted

MOST: Final = 256
"""The calls of all principals together. A principal that has none may have one more."""
MOST_OF_PRINCIPAL: Final = 64
PATIENCE: Final = 10.0
"""The seconds for which a call waits before it is refused, if so many calls have given their places away, and none of
them ends.
"""


class GivenPlaces:
    """Counts calls from when they give their places away until they end. All methods are called on the event loop."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._ended: dict[str, float] = {}
        """When the last call of each principal has ended, of those that have others."""
        self._last_end = -math.inf

    def have_room(self, principal: str) -> bool:
        """True if a call of this principal may begin, which may give its place away. Where there are no principals, all
        calls have the bound of all principals together.
        """
        if principal and not self._of[principal]:
            return True
        return self._of.total() < MOST and not self._is_full_of(principal)

    def may_free_room(self, principal: str) -> bool:
        """True if there is room, or calls end that take it."""
        ended = self._ended.get(principal, -math.inf) if self._is_full_of(principal) else self._last_end
        return self.have_room(principal) or time.monotonic() - ended < PATIENCE

    def _is_full_of(self, principal: str) -> bool:
        return bool(principal) and self._of[principal] >= MOST_OF_PRINCIPAL

    def add(self, principal: str) -> None:
        self._of[principal] += 1

    def remove(self, principal: str) -> None:
        self._last_end = self._ended[principal] = time.monotonic()
        self._of[principal] -= 1
        if not self._of[principal]:
            del self._of[principal], self._ended[principal]

    def refusal(self, principal: str) -> Exhausted:
        """The error for a call that has waited for room in vain."""
        full = self._is_full_of(principal)
        calls = f"{self._of[principal]} of your calls" if full else f"{self._of.total()} calls"
        return Exhausted(
            f"{calls} wait for slow folders or files, and this server takes no more: wait for an answer first, or see "
            "whether the storage answers",
            reason="TOO_MANY_CALLS",
        )
