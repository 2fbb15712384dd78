"""The one way a name that came from outside gets into SQL. Values never do: they are bound as parameters."""

from __future__ import annotations


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    if "\x00" in name:
        raise ValueError("a name with a NUL character cannot be written in SQL")
    return '"' + name.replace('"', '""') + '"'
