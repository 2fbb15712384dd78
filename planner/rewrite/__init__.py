"""Plan to plan: what DuckDB cannot do across a boundary of ours."""
