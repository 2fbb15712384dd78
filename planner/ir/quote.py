"""The only two ways in which a name or a text from a plan gets into SQL."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A quoted string literal. DuckDB has no escapes in it but the doubled quote; a NUL has to be spelled."""
    if "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    return "(" + " || chr(0) || ".join(text(part) for part in value.split("\0")) + ")"
