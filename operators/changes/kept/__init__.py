"""Arrangements: the rows that operators on changes keep, and how they are found and stored."""
