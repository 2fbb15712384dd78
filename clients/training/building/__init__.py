"""Builds batches ahead: reads the rows of windows, shuffles them, and keeps what is ready for its user."""
