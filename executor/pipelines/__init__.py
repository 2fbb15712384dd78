"""One pipeline's instances: made, kept for each shape of the sources, run for an epoch."""
