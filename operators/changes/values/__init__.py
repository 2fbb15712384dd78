"""A change in memory: columns, rows, weights, and their order."""
