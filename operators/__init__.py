"""The operators: they know Arrow, NumPy, DuckDB and how to read a split, and nothing of plans, wires or threads."""
