"""Facts about relations that passes rely on, found without changing a plan."""
