"""Writes relations and expressions as SQL over positional columns."""
