"""Graphs of user operators, from their builder to their rows."""
