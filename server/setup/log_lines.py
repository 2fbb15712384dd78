"""The format of a server's log: one line per record, with further lines of the record marked by a bar."""

from __future__ import annotations

import logging
import re
from typing import Final

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_NOT_SHOWN: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class LogLines(logging.Formatter):
    """Formats records whose messages and tracebacks may quote user text.

    User text can neither begin a line as a record does, nor reach the terminal as anything but text.
    """

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return _NOT_SHOWN.sub(lambda matched: ascii(matched.group())[1:-1], text).replace("\n", "\n  | ")


def log_to_stderr(level: str) -> None:
    """Log Tidegate's records from this level on, and those of other libraries from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogLines())
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("tidegate").setLevel(number)
