"""The exactness of a source's size in plans: rougher sizes mean fewer plans for a task's epochs."""

from __future__ import annotations


def size_class(rows: int, channels: int = 1) -> int:
    """The power of ten at or above so many rows, on several channels the power of two; 0 for none."""
    if channels > 1:
        return 1 << (rows - 1).bit_length() if rows else 0
    return 10 ** len(str(rows - 1)) if rows > 1 else rows
