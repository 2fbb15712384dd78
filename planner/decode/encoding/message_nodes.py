"""A plan's messages as a table: each recursive message once, holding the numbers of the messages inside it.

A table is read lazily: taking a message reads its own bytes (or JSON) and puts the messages inside it into the table.
So a plan is read once over, however deep it is, and a broken part is found at its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from . import limits

Message: TypeAlias = Any
"""A message of the private pool: protobuf's dynamic classes have no static types."""


class Malformed(Exception):
    """A message whose bytes or JSON do not follow Substrait's schema."""


class Nodes(ABC):
    """The table. Number 0 is the plan itself; in a field, 0 means that there is no message.

    Type aliases, parameters and detached expressions are used many times and may refer to each other, and the body of a
    loop is read until the loop's columns are known. So the table counts what is taken again, and the bytes of it: a
    small plan could stand for a plan of any size.
    """

    def __init__(self) -> None:
        self._messages: dict[int, Message] = {}
        self._taken: set[int] = set()
        self._repeats = self._repeated_bytes = 0

    def take(self, number: int) -> Message:
        """Message `number`, for conversion. Raises `Malformed`, and `PlanError` where too much is taken again."""
        message = self.peek(number)
        self._count(number, message)
        return message

    def take_literals(self, numbers: Sequence[int]) -> Sequence[Message] | None:
        """The literals that the expressions `numbers` are, if none of them is or holds anything else and the table can
        read them all at once. Raises `Malformed`.
        """
        literals = self._read_literals(numbers)
        if literals is not None and self._taken.isdisjoint(numbers):
            self._taken.update(numbers)
        else:
            for number, literal in zip(numbers, literals or (), strict=False):
                self._count(number, literal)
        return literals

    def _count(self, number: int, message: Message) -> None:
        """Counts a message that is taken once more."""
        if number not in self._taken:
            self._taken.add(number)
        else:
            self.count_repeat(message.ByteSize())

    def count_repeat(self, size: int) -> None:
        """Counts `size` bytes that are taken again."""
        self._repeats += 1
        if self._repeats > limits.REPEATS.most:
            raise limits.REPEATS.refuse()
        self._repeated_bytes += size
        if self._repeated_bytes > limits.REPEATED_BYTES.most:
            raise limits.REPEATED_BYTES.refuse()

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
