"""Computes the order of a loader: shuffled splits, windows, shards, and the rows that each rank has. Keeps the memory of its large arrays."""
