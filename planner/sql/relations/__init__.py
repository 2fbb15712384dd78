"""Writes one relation as one SELECT: a file per relation."""
