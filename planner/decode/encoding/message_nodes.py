"""A plan's messages as a table: each recursive message once, holding the numbers of those inside it.

A table is read lazily: taking a message reads its own bytes (or JSON) and puts what is inside it into the table. So
a plan is read once over, however deep it is, and what is broken is found where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, Final, TypeAlias

Message: TypeAlias = Any
"""A message of the private pool: protobuf's dynamic classes have no static types."""

MAX_REPEATS: Final = 50_000
"""How often messages may be taken that were taken before. Type aliases and detached expressions are used many times
and refer to each other, and bodies of loops are read until it is known what goes round in them, so a small plan could
stand for one of any size.
"""


class Malformed(Exception):
    """The bytes or the JSON of one message are not what Substrait's schema says, or stand for too much."""


class Nodes(ABC):
    """The table. Number 0 is the plan itself; in a field, 0 says that there is no message."""

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self._taken: set[int] = set()
        self._repeats = 0

    def take(self, number: int) -> Message:
        """Message `number`, to convert it. Raises `Malformed`."""
        if number in self._taken:
            self._repeats += 1
            if self._repeats > MAX_REPEATS:
                problem = (
                    f"aliases, detached expressions and loops of this plan stand for more than {MAX_REPEATS:,} parts"
                )
                raise Malformed(problem)
        self._taken.add(number)
        return self.peek(number)

    def peek(self, number: int) -> Message:
        """Message `number`, to see what it is. Raises `Malformed`."""
        found = self._messages.get(number)
        if found is None:
            found = self._messages[number] = self._read(number)
        return found

    @abstractmethod
    def _read(self, number: int) -> Message:
        """Reads message `number` and puts what is inside it into the table."""

    @abstractmethod
    def content(self, number: int) -> Hashable:
        """What message `number` holds, to compare it with another one of this table."""
