"""Bounds the answers of each principal that its clients have not read yet: the server keeps them until then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ...executor.api.ownership import acts_for
from ...executor.runtime.ceilings import InUse
from ...proto.errors import Exhausted

_NOT_COUNTED: Final = 16 << 10
_LEAST_ROOM: Final = 64 << 10
_PART: Final = 4
"""An answer with rows has at most this part of the bytes that are left, so that further answers have room, too."""


class UnreadAnswers:
    """The bytes of each principal's answers on their way, `most` each. Larger answers alone are counted."""

    def __init__(self, most: int) -> None:
        self._bytes = InUse(
            most,
            lambda: Exhausted(
                f"your clients have not read answers of {most:,} bytes, and this server makes no more: read them, or "
                "end their calls",
                reason="TOO_MANY_CALLS",
            ),
        )

    def room(self, asked: int) -> int:
        """The bytes of rows for an answer that may have `asked`: fewer while much is unread."""
        return min(asked, max(_LEAST_ROOM, self._bytes.left(acts_for()) // _PART))

    def count(self, answer: bytes) -> Callable[[], None]:
        """Count an answer until the returned function is called. Raises `Exhausted` if too much is unread."""
        size = len(answer)
        if size <= _NOT_COUNTED:
            return _nothing
        principal = acts_for()
        self._bytes.take(principal, size)
        return partial(self._bytes.give, principal, size)


def _nothing() -> None:
    pass
