"""The Python client over both kinds of service, and the loaders of training data."""
