"""Options are checked when the task is made, each with a sentence of its own."""

from __future__ import annotations

import pytest

from tidegate.executor.api.checked_options import check_options, with_channels
from tidegate.planner.cut.chosen_channels import LEAST_BYTES, MOST_BYTES, wanted_channels
from tidegate.planner.physical.pipelines import Feed, SourceShape
from tidegate.proto.errors import InvalidRequest
from tidegate.proto.values import Determinism, ExecutorKind, Mode, TaskOptions


def test_the_defaults_are_in_order() -> None:
    assert check_options(TaskOptions()) == TaskOptions()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": -1}, "channels=-1 must be a number of channels"),
        ({"channels": 65}, "channels=65: a task of the service's own process may have 64 at most"),
        ({"channels": 1025, "executor": ExecutorKind.SPARK}, "channels=1025 must be a number of channels"),
        ({"slot_memory": 31 << 20}, "slot_memory=32505856 must be at least 33554432 bytes"),
        ({"slot_memory": 5 << 30}, "slot_memory=5368709120 .* at most memory_limit=4294967296"),
        ({"slot_memory": 32 << 20, "mode": Mode.CONTINUOUS}, "slot_memory is not an option of a continuous task"),
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
        ({"spark_threshold_bytes": 0}, "spark_threshold_bytes=0 is given, but the task does not run on Spark"),
        ({"spark_threshold_bytes": -1, "executor": ExecutorKind.SPARK}, "spark_threshold_bytes=-1 must be a number of"),
        ({"time_zone": "Mars/Olympus"}, "time_zone='Mars/Olympus' must be a zone"),
        ({"time_zone": "../etc/passwd"}, "must be a zone"),
        ({"time_zone": ""}, "must be a zone"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_options(TaskOptions(**options))


@pytest.mark.parametrize(
    ("channels", "slot_memory", "has"), [(64, 0, 0), (64, 1 << 30, 1 << 30), (65, 0, 4 << 30), (0, 0, 4 << 30)]
)
def test_more_channels_on_spark_than_a_service_may_have_get_memory_for_each_slot(
    channels: int, slot_memory: int, has: int
) -> None:
    """No others: a task that a service could run itself has the same memory, and so the same rows, on Spark."""
    asked = TaskOptions(executor=ExecutorKind.SPARK, channels=channels, slot_memory=slot_memory)
    options = with_channels(asked, lambda: 2)
    assert check_options(options).slot_memory == has


@pytest.mark.parametrize(
    ("options", "channels", "cores"),
    [
        (TaskOptions(channels=3), 3, 0),
        (TaskOptions(channels=0), 12, 12),
        (TaskOptions(channels=0, auto_cores=6), 6, 6),
        (TaskOptions(channels=0, memory_limit=100 << 20), 3, 12),
        (TaskOptions(channels=0, memory_limit=1 << 20), 1, 12),
        (TaskOptions(channels=0, memory_limit=4 << 30, slot_memory=1 << 30), 4, 12),
        (TaskOptions(channels=0, auto_cores=1000), 64, 1000),
        (TaskOptions(channels=0, determinism=Determinism.RELAXED), 1, 0),
        (TaskOptions(channels=0, mode=Mode.CONTINUOUS), 12, 0),
        (TaskOptions(channels=0, executor=ExecutorKind.SPARK, memory_limit=32 << 20), 1024, 12),
    ],
)
def test_channels_that_the_service_chooses_have_a_bound(options: TaskOptions, channels: int, cores: int) -> None:
    """By the cores that are counted once, so that a task that comes back later chooses as before."""
    chosen = with_channels(options, lambda: 12)
    assert (chosen.channels, chosen.auto_cores) == (channels, cores)
    assert with_channels(chosen, lambda: 99) == chosen
    assert with_channels(options, lambda: 12, most=2).channels <= max(2, options.channels)


@pytest.mark.parametrize(
    ("size", "channels"),
    [
        (0, 1),
        (LEAST_BYTES, 1),
        (3 * LEAST_BYTES, 3),
        (100 * LEAST_BYTES, 8),
        (20 * MOST_BYTES, 20),
        (5000 * MOST_BYTES, 1024),
    ],
)
def test_channels_are_chosen_by_the_cores_and_the_bytes_of_the_input(size: int, channels: int) -> None:
    shape = {
        "a": SourceShape(feed=Feed.FILES, size_class=1, byte_class=size // 2),
        "b": SourceShape(feed=Feed.STREAM, size_class=1, byte_class=size - size // 2),
    }
    assert wanted_channels(TaskOptions(channels=1024, auto_cores=8), shape) == channels
    assert wanted_channels(TaskOptions(channels=7), shape) == 7
