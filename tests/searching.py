"""Time limits of searches for bugs: CI looks briefly, `make search` tries more and runs what is too long for CI."""

from __future__ import annotations

import os
from typing import Final

import pytest

SEARCHES: Final = os.environ.get("HYPOTHESIS_PROFILE") == "search"
LONGER: Final = 20
"""How many times as many examples a search tries."""

search = pytest.mark.search
"""Marks a test that only `make search` runs."""


def tries(count: int) -> int:
    """The number of examples of a property: `count` in CI."""
    return count * LONGER if SEARCHES else count
