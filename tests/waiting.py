"""A wait for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once the condition is true; it fails the test if that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come to that in {seconds:g} seconds"
        time.sleep(0.01)
