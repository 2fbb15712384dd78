"""A plan's messages as a table: each recursive message once, holding the numbers of the messages inside it.

A table is read lazily: taking a message reads its own bytes (or JSON) and puts the messages inside it into the table.
So a plan is read once over, however deep it is, and a broken part is found at its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Final, TypeAlias

Message: TypeAlias = Any
"""A message of the private pool: protobuf's dynamic classes have no static types."""

MAX_REPEATS: Final = 50_000
"""The most repeated takes of messages. Type aliases and detached expressions are used many times and refer to each
other, and the body of a loop is read until the loop's columns are known, so a small plan could stand for a plan of any
size.
"""


class Malformed(Exception):
    """A message whose bytes or JSON do not follow Substrait's schema, or which stands for too many parts."""


class Nodes(ABC):
    """The table. Number 0 is the plan itself; in a field, 0 means that there is no message."""

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self._taken: set[int] = set()
        self._repeats = 0

    def take(self, number: int) -> Message:
        """Message `number`, for conversion. Raises `Malformed`."""
        if number in self._taken:
            self._count((number,))
        else:
            self._taken.add(number)
        return self.peek(number)

    def take_literals(self, numbers: Sequence[int]) -> Sequence[Message] | None:
        """The literals that the expressions `numbers` are, if none of them is or holds anything else and the table can
        read them all at once. Raises `Malformed`.
        """
        literals = self._read_literals(numbers)
        if literals is not None:
            self._count(numbers)
        return literals

    def _count(self, numbers: Sequence[int]) -> None:
        """Counts the messages that are taken once more."""
        before = len(self._taken)
        self._taken.update(numbers)
        self._repeats += len(numbers) - (len(self._taken) - before)
        if self._repeats > MAX_REPEATS:
            problem = (
                "aliases, detached expressions and loops of this plan expand to too many parts; at most "
                f"{MAX_REPEATS:,} are allowed"
            )
            raise Malformed(problem)

    def peek(self, number: int) -> Message:
        """Message `number`, for inspection. Raises `Malformed`."""
        message = self._messages.get(number)
        if message is None:
            message = self._messages[number] = self._read(number)
        return message

    @abstractmethod
    def graft(self, name: str, data: bytes) -> int:
        """The number of a message that the plan has as plain bytes, in a field of a message of another schema."""

    @abstractmethod
    def _read(self, number: int) -> Message:
        """Reads message `number` and puts the messages inside it into the table."""

    def _read_literals(self, numbers: Sequence[int]) -> Sequence[Message] | None:  # noqa: ARG002  # for tables that can
        return None

    @abstractmethod
    def content(self, number: int) -> Hashable:
        """The content of message `number`, for comparison with another message of this table."""
