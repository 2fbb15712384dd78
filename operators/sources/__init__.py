"""Reads splits: from a client's split to pieces, and from pieces to rows."""
