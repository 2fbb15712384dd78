"""Explains how a plan will run, as text and as JSON."""
