"""Runs user code: the nodes of graphs, their loops and unions, and the routing of rows to channels."""
