"""Makes the instances of a pipeline, keeps them for each shape of the sources, and runs them for an epoch."""
