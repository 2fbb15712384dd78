"""Rewrites a fragment so that its rows have one order, whatever order DuckDB's hash joins give them."""
