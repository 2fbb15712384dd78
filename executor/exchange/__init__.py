"""Moves rows between channels: routing, order, and which channel runs next."""
