"""Reads splits: cuts a client's split into pieces, and pieces into rows."""
