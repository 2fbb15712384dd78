"""Decides who may connect and call: TLS, tokens, connections."""
