"""Turns values into wire messages, and wire messages into values."""
