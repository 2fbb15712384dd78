"""Items put together until there is enough of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def filled(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Lists of items in their order, each of which ends with the item that makes it large enough; the last may not."""
    held: list[T] = []
    size = 0
    for item in items:
        held.append(item)
        size += size_of(item)
        if size >= enough:
            yield held
            held, size = [], 0
    if held:
        yield held
