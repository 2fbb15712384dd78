"""Continuous tasks: the sum of all changes is what a per-epoch task gives over all input so far."""
