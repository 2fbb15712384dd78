"""Plans at work on changes: continuous tasks, and loops."""
