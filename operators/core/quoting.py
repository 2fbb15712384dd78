"""The one way for a name from outside to get into SQL. Values never do: they are bound as parameters."""

from __future__ import annotations


def writable(name: str) -> bool:
    """True where SQL can write this name. SQL cannot write the empty name, nor a name with a NUL character."""
    return bool(name) and "\x00" not in name


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    if not writable(name):
        raise ValueError(f"{name!r} cannot be written as a name in SQL")
    return '"' + name.replace('"', '""') + '"'
