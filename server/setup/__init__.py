"""How a server is set up: its settings, threads, operators and log."""
