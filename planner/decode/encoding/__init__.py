"""Reads a plan's encoding, binary or JSON, into a table of messages, within limits."""
