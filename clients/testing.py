"""For whoever writes an operator: `check_operator` puts it through what every operator must do.

The other names are for tests that want the checks one by one. This module, and none else here, reaches the operators:
it is for their authors, not for clients, and importing `tidegate` does not load it.
"""

from __future__ import annotations

from .operators.testing import CHECKS, Boom, Case, WatchedStream, check_operator

__all__ = ["CHECKS", "Boom", "Case", "WatchedStream", "check_operator"]
