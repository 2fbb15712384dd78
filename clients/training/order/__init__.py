"""Computes the order of a loader: splits, windows, shards, and each rank's rows. Keeps the memory of large arrays."""
