"""Tasks, epochs, exchanges, checkpoints and the journal inside of one process; pipelines on Spark."""
