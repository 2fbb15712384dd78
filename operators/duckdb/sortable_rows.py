"""The widths of rows that DuckDB sorts within its memory, however many rows there are.

A sort that spills merges 122,880 rows at a time, and holds all of them. Windows and the ordered form of joins have
sorts inside.
"""

from __future__ import annotations

from typing import Final

_MERGED_ROWS: Final = 122_880
#: Merged rows may take one part in so many of the memory. Runs on their way in and out take the rest.
_SHARE: Final = 8
#: Inputs that are one part in so many of the memory are sorted without spilling.
_SMALL_SHARE: Final = 8


def sortable_text_bytes(memory_limit: int) -> int:
    """The bytes that the texts of a row may have in a sort that spills."""
    return memory_limit // (_SHARE * _MERGED_ROWS)


def unspilled_bytes(memory_limit: int) -> int:
    """The bytes of all rows up to which no sort of them spills."""
    return memory_limit // _SMALL_SHARE
