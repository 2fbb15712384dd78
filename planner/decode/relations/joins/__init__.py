"""Converters of joins."""
