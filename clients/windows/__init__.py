"""Builds windows of time and joins by time, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from .join_builders import as_of_join, interval_join
from .plan_sources import of_source
from .row_builders import late_rows, on_time, watermark
from .table_builders import with_tables
from .window_builders import count, days, distinct, months, session, sliding, tumbling

__all__ = [
    "as_of_join",
    "count",
    "days",
    "distinct",
    "interval_join",
    "late_rows",
    "months",
    "of_source",
    "on_time",
    "session",
    "sliding",
    "tumbling",
    "watermark",
    "with_tables",
]
