"""Plans that other systems write, against the answers that these systems give themselves."""
