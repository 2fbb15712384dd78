"""Settings of the site that `make docs` makes."""
