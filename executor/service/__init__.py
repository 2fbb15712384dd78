"""All tasks of a process, and how plans, graphs and Spark become tasks."""
