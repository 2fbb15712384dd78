"""The gRPC endpoints and the command line: a thin skin over the executor."""
