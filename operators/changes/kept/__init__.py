"""Arrangements: the rows that operators on changes keep, and how those rows are stored and found."""
