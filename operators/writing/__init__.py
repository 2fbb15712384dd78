"""Files of a table: their formats, columns and folder, and an epoch's files until they are committed."""
