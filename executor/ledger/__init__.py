"""Records the splits, epochs and transactions of a task, without threads and without data."""
