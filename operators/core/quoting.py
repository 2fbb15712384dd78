"""The one way a name that came from outside gets into SQL. Values never do: they are bound as parameters."""

from __future__ import annotations


def writable(name: str) -> bool:
    """Whether SQL can write this name at all: the empty one, and one with a NUL character, it cannot."""
    return bool(name) and "\x00" not in name


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    if not writable(name):
        raise ValueError(f"{name!r} cannot be written as a name in SQL")
    return '"' + name.replace('"', '""') + '"'
