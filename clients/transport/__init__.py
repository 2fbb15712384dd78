"""Carries the client's calls: channels, streams, reading ahead, reconnecting."""
