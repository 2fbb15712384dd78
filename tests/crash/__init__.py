"""Services that are killed at named points and at random instants, against undisturbed ones."""
