"""The options of a task that is to run where a test wants it, however few rows the test has."""

from __future__ import annotations

from typing import Any


def on_channels(count: int, mode: str = "per_epoch") -> dict[str, Any]:
    """The options for `count` channels. A continuous task uses all of its channels without being asked."""
    options: dict[str, Any] = {"channels": count}
    if mode == "continuous":
        return options | {"mode": mode}
    return options | {"parallel_threshold_seconds": 0.0}


def on_spark(spark: object) -> dict[str, Any]:
    """The options of a task whose epochs are jobs of this Spark."""
    return {"executor": "spark", "spark": spark, "spark_threshold_bytes": 0}
