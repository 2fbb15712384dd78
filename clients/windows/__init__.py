"""Builds aggregates over windows of time, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from .window_builders import count, days, late_rows, months, session, sliding, tumbling, watermark

__all__ = ["count", "days", "late_rows", "months", "session", "sliding", "tumbling", "watermark"]
