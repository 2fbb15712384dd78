"""A prepared plan as a computation, per epoch or continuous."""
