"""Server processes: calls, tokens, limits, the command line, attacks and load."""
