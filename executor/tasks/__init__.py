"""The life of a task: feeding, running epochs, the output log."""
