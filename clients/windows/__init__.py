"""Builds windows of time and joins by time, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from .join_builders import as_of_join, interval_join
from .window_builders import count, days, late_rows, months, session, sliding, tumbling, watermark

__all__ = [
    "as_of_join",
    "count",
    "days",
    "interval_join",
    "late_rows",
    "months",
    "session",
    "sliding",
    "tumbling",
    "watermark",
]
