"""Lists what a loader reads, once: the splits of its data, and the static tables that all of its tasks have."""
