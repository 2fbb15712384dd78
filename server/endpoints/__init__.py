"""One file for each service of the wire."""
