"""Runs SQL: fragments, their statements, and the DuckDB instances that they run on."""
