"""Decodes joins."""
