"""Programs that write pages of the documents. `make` runs them; a distribution does not have them."""
