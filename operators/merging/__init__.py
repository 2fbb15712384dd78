"""The parts of the merge join: sorted inputs, matching keys, groups of equal keys, output rows."""
