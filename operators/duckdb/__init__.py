"""Runs SQL: fragments, and all that knows DuckDB."""
