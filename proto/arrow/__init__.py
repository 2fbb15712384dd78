"""Arrow on the wire, and the validation of what strangers send."""
