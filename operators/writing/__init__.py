"""Files of a table: their formats, columns and folder, and an epoch's until it is committed."""
