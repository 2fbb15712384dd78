"""Runs a prepared plan as a computation, per epoch or continuous."""
