"""Chooses how a relation is run: loops as statements or in rounds, sorted inputs as streams."""
