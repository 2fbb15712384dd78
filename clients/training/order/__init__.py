"""Computes a loader's order: splits, windows, shards, each rank's rows. Keeps memory and a thread for large arrays."""
