"""The time zones that DuckDB knows."""

from __future__ import annotations

from functools import cache

import duckdb


def is_time_zone(name: str) -> bool:
    """Tests whether DuckDB knows a time zone of this name, in letters of any case."""
    return name.lower() in _names()


@cache
def _names() -> frozenset[str]:
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = connection.execute("SELECT lower(name) FROM pg_timezone_names()").fetchall()
    return frozenset(name for (name,) in rows)
