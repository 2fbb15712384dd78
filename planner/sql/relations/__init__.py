"""One relation, one SELECT: a file per relation."""
