"""The half of a Spark job that runs in Spark's processes."""
