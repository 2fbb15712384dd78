"""The options of a task that is to be spread over its channels, however little time they save on a test's few rows."""

from __future__ import annotations

from typing import Any


def on_channels(count: int, mode: str = "per_epoch") -> dict[str, Any]:
    """The options for `count` channels. A continuous task uses all of its channels without being asked."""
    options: dict[str, Any] = {"channels": count}
    if mode == "continuous":
        return options | {"mode": mode}
    return options | {"parallel_threshold_seconds": 0.0}
