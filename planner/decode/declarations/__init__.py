"""Decodes what the top of a plan declares: functions, types, names, and the producer's habits."""
