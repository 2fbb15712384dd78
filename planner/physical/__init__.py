"""What the planner hands to the executor: physical nodes, pipelines, stages, as values."""
