"""The modes of a write into a table that may have rows."""

from __future__ import annotations

import enum


class WriteMode(enum.Enum):
    """The mode of a write. INSERT adds to a table. The other modes create one, and say how to treat files of other
    writers that are already in its folder: add to them, replace them, write nothing, or fail.
    """

    INSERT = "insert"
    APPEND = "append"
    REPLACE = "replace"
    IGNORE = "ignore"
    ERROR = "error"
