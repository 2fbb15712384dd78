"""Checks for authors of operators: `check_operator` runs all checks of the operator contract on an operator.

The other names are for tests that run the checks one by one. This module alone in the client imports the operators: it
is for their authors, and importing `tidegate` does not load it.
"""

from __future__ import annotations

from .operators.testing import CHECKS, Boom, Case, WatchedStream, check_operator

__all__ = ["CHECKS", "Boom", "Case", "WatchedStream", "check_operator"]
