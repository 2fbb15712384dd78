"""Decodes loops and the references to them."""
