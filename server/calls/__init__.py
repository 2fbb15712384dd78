"""Answers every call: its thread, its errors, its limits."""
