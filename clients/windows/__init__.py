"""Builds windows of time and joins by time, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from .join_builders import as_of_join, interval_join
from .row_builders import late_rows, watermark
from .window_builders import count, days, distinct, months, session, sliding, tumbling

__all__ = [
    "as_of_join",
    "count",
    "days",
    "distinct",
    "interval_join",
    "late_rows",
    "months",
    "session",
    "sliding",
    "tumbling",
    "watermark",
]
