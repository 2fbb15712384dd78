"""The life of a task: feeding, driving epochs, the output log."""
