"""Runs user code: the nodes of graphs, their loops and unions."""
