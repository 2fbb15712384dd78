"""Options are checked when the task is made, each with a sentence of its own."""

from __future__ import annotations

import pytest

from tidegate.executor.api.checked_options import check_options
from tidegate.proto.errors import InvalidRequest
from tidegate.proto.values import Determinism, TaskOptions


def test_the_defaults_are_in_order() -> None:
    assert check_options(TaskOptions()) == TaskOptions()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 0}, "channels=0 must be a number of channels, from 1 to 64"),
        ({"channels": 65}, "channels=65 must be a number of channels"),
        ({"channels": 2, "determinism": Determinism.RELAXED}, "channels=2: a relaxed task runs one channel"),
        ({"channels": 2, "memory_limit": 63 << 20}, "memory_limit=66060288 must be at least 67108864 bytes"),
        ({"max_pending_epochs": 0}, "max_pending_epochs=0 must be a number of epochs, from 1 to"),
        ({"memory_limit": 1}, "memory_limit=1 must be at least"),
        ({"queue_bytes": 0}, "queue_bytes=0"),
        ({"output_bytes": 0}, "output_bytes=0"),
        ({"spill_quota": -1}, "spill_quota=-1"),
        ({"idle_seconds": -1.0}, "idle_seconds=-1.0"),
        ({"idle_seconds": float("nan")}, "idle_seconds=nan"),
        ({"idle_seconds": 1e10}, "idle_seconds=10000000000.0 must be a number of seconds"),
        ({"loop_seconds": float("inf")}, "loop_seconds=inf"),
        ({"loop_rows": 0}, "loop_rows=0 must be a number of rows, from 1 to"),
        ({"loop_seconds": -1.0}, "loop_seconds=-1.0"),
        ({"parallel_threshold_seconds": -0.1}, "parallel_threshold_seconds=-0.1 must be a number of seconds"),
        ({"parallel_threshold_seconds": float("nan")}, "parallel_threshold_seconds=nan"),
        ({"time_zone": "Mars/Olympus"}, "time_zone='Mars/Olympus' must be a zone"),
        ({"time_zone": "../etc/passwd"}, "must be a zone"),
        ({"time_zone": ""}, "must be a zone"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_options(TaskOptions(**options))
