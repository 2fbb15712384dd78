"""Just enough of flatbuffers to look into Arrow's metadata, which pyarrow verifies but does not show."""

from __future__ import annotations


def root(view: memoryview) -> int:
    """The position of the outermost table."""
    return table(view, 0)


def table(view: memoryview, position: int) -> int:
    """The position of the table or vector that the offset at `position` points to."""
    return position + int.from_bytes(view[position : position + 4], "little")


def field(view: memoryview, of: int, number: int) -> int:
    """The position of a table's field; 0 where the field is absent."""
    vtable = of - int.from_bytes(view[of : of + 4], "little", signed=True)
    entry = 4 + 2 * number
    if entry >= int.from_bytes(view[vtable : vtable + 2], "little"):
        return 0
    offset = int.from_bytes(view[vtable + entry : vtable + entry + 2], "little")
    return of + offset if offset else 0
