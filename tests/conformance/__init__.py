"""Whole plans: TPC-H, Substrait's official function cases, random queries, one digest on every run, memory."""
