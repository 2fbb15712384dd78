"""Decodes relations over windows of time."""
