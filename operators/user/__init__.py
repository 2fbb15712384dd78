"""Runs code of users: the nodes of graphs, and what routes and joins their rows."""
