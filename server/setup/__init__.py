"""Sets a server up: its settings, threads, operators and log."""
