"""Continuous tasks: integrating what their epochs answer gives the per-epoch answer over the sum of the input."""
