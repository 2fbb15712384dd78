"""Quoting: the only two ways in which a name or a text from a plan gets into SQL."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A quoted string literal. The doubled quote is DuckDB's only escape, so a NUL is spelled as `chr(0)`."""
    if "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    return "(" + " || chr(0) || ".join(text(part) for part in value.split("\0")) + ")"
