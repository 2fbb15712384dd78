"""What a write does with what is there."""

from __future__ import annotations

import enum


class WriteMode(enum.Enum):
    """INSERT adds to a table. The others create one, and say what of others' files that are in its folder already:
    add to them, replace them, write nothing, or fail.
    """

    INSERT = "insert"
    APPEND = "append"
    REPLACE = "replace"
    IGNORE = "ignore"
    ERROR = "error"
