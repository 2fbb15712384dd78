"""Each operator alone, by the checks of `tidegate.testing` and against plain Python; readers of splits; DuckDB."""
