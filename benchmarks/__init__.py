"""Tidegate beside its peers, in one run: `python -m benchmarks --help`."""
