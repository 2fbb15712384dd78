"""Checks and types graphs of user operators, and lowers them to the pipelines that plans run as."""
