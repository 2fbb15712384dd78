"""Keeps the book of a task: its splits, epochs and transactions, without threads and without data."""
