"""The interfaces between tasks and what they run: a computation, and the engine that makes one."""
