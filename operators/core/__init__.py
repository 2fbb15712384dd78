"""The operator contract and the small parts that every operator uses."""
