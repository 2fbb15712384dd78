"""The interfaces between tasks and their work: a computation, and the engine that makes one."""
