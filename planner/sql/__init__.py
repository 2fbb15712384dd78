"""Relations and expressions as SQL over positional columns."""
