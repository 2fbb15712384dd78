"""Threads, timers, memory and spill room that all tasks share."""
