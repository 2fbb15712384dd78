"""Files of a table: their formats, their folder, and those of an epoch until they are committed."""
