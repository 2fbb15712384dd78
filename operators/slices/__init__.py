"""Windows of slices of time, put together from the groups of the slices."""
