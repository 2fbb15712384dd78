"""Decodes the declarations at the top of a plan: functions, types, names, and the producer's habits."""
