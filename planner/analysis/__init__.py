"""Finds facts about relations that planner passes rely on, without changing a plan."""
