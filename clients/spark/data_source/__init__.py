"""The Spark data source `tidegate`, to read results and to write to a task."""
