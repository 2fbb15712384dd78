"""The planner's result for the executor, as values: physical nodes, pipelines, stages."""
