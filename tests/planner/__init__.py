"""Plans as values: decoding, functions, rewrites, SQL, distribution. Statements run in a bare DuckDB."""
