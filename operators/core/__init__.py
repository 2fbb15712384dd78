"""The operator contract and its small parts."""
