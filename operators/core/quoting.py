"""Quoting: the only two ways in which a name or a text from outside gets into SQL.

A value of another type is written by its own literal, or is bound as a parameter.
"""

from __future__ import annotations


def writable(name: str) -> bool:
    """True where SQL can write this name. SQL cannot write the empty name, nor a name with a NUL character."""
    return bool(name) and "\0" not in name


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier."""
    if not writable(name):
        raise ValueError(f"{name!r} cannot be written as a name in SQL")
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A quoted string literal. The doubled quote is DuckDB's only escape, so a NUL is spelled as `chr(0)`."""
    if "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    return "(" + " || chr(0) || ".join(text(part) for part in value.split("\0")) + ")"
