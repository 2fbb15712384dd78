"""Builds aggregates over windows of time, for plans made with substrait's builders or its data frames."""

from __future__ import annotations

from .window_builders import count, late_rows, session, sliding, tumbling, watermark

__all__ = ["count", "late_rows", "session", "sliding", "tumbling", "watermark"]
