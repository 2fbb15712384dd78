"""Bounds the calls that have given their places among a pool's threads to others: each has a thread of its own."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ...proto.errors import Exhausted

MOST: Final = 256
"""The calls of all principals together. A principal that has none may have one more."""
MOST_OF_PRINCIPAL: Final = 64
PATIENCE: Final = 10.0
"""The seconds for which a call waits before it is refused, if so many calls have given their places away."""


class GivenPlaces:
    """Counts calls from when they give their places away until they end. All methods are called on the event loop."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    def have_room(self, principal: str) -> bool:
        """True if a call of this principal may begin, which may give its place away. Where there are no principals, all
        calls have the bound of all principals together.
        """
        mine = self._of[principal]
        if principal and not mine:
            return True
        return self._of.total() < MOST and not (principal and mine >= MOST_OF_PRINCIPAL)

    def add(self, principal: str) -> None:
        self._of[principal] += 1

    def remove(self, principal: str) -> None:
        self._of[principal] -= 1
        if not self._of[principal]:
            del self._of[principal]

    def refusal(self, principal: str) -> Exhausted:
        """The error for a call that has waited for room in vain."""
        mine = self._of[principal]
        whose = "of your calls" if principal and mine >= MOST_OF_PRINCIPAL else "calls"
        number = mine if whose == "of your calls" else self._of.total()
        return Exhausted(
            f"{number} {whose} wait for slow folders or files that their plans read, and this server takes no more: "
            "wait for an answer first, or see whether the storage answers",
            reason="TOO_MANY_CALLS",
        )
