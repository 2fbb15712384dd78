"""Cuts a plan into sections, fragments and physical nodes."""
