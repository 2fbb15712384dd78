"""Runs a graph of operators on changes, on any number of channels: links, loops, and the prepares that find a quiet
loop.
"""
