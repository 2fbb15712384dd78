"""Reads Arrow IPC in parts: the messages of a file, their buffers, columns and dictionaries."""
