"""Converters of loops and of the references to them."""
