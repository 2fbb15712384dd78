"""Values to wire messages and back."""
