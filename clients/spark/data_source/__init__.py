"""The Spark data source `tidegate`: reads results, and writes to a task."""
