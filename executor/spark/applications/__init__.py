"""Starts or reaches the Spark that tasks run on: the workers of a local master, or a server of Spark Connect, which may
be out of reach.
"""
