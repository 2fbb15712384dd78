"""The messages inside of a protobuf message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message


def messages(message: Any) -> Iterator[Any]:
    """The message and all messages inside, each before those inside of it."""
    yield message
    for field, value in message.ListFields():
        for part in value if field.is_repeated else (value,):
            if isinstance(part, Message):
                yield from messages(part)
