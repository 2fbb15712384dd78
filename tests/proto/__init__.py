"""Values, messages and Arrow data of the wire, without tasks."""
