"""Chooses how a relation runs: loops as statements or in rounds, sorted inputs as streams."""
