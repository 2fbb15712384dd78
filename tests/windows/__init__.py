"""Windows of time, against a naive oracle."""
