"""Converters of reads."""
