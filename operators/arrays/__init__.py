"""NumPy and Arrow below the operators: layouts, casts, hashes, orders."""
