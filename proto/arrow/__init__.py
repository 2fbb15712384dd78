"""Encodes Arrow for the wire, and validates the Arrow data that strangers send."""
