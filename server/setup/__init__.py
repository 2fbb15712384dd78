"""Sets up a server: its settings, threads, operators and log."""
