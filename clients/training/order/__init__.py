"""Computes a loader's order: splits, windows, shards, each rank's rows. Keeps memory for large arrays."""
