"""Lowering of plans to operators on changes."""
