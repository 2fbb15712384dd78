"""Groups items into lists of at least a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def filled(items: Iterable[T], size_of: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Lists of items in their order. Each ends with the item that makes it large enough; the last may be smaller."""
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
