"""Checkpoints: everything that a task needs to go on from a barrier, in immutable files and one manifest that names
them all.
"""
