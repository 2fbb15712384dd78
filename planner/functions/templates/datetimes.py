"""Dates, times, timestamps and intervals."""

from __future__ import annotations

from typing import Final

from .use import Entry, Table, Use

_FIELDS: Final[dict[str, str]] = {"YEAR": "year", "ISO_YEAR": "isoyear"}


def _extract(use: Use) -> str:
    unit, *rest = use.arguments
    return f"date_part('{_FIELDS[unit]}', {rest[-1]})"


TABLE: Final[Table] = {
    ("datetime", "extract"): Entry(_extract),
}
