"""Encodes Arrow for the wire, validates the Arrow data that strangers send, and holds rows in memory and files."""
