"""Who may connect and call: TLS, tokens, connections."""
