"""Decodes reads."""
