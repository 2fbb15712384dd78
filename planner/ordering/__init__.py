"""A fragment whose rows come in an order of their own, however DuckDB's hash joins hand theirs out."""
