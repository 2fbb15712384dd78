"""An aggregate with many grouping sets: its epochs end when they take too long, and keep to their memory."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from benchmarks import plan_growth

SETS: Final = 200
PLAN: Final = plan_growth.plan(plan_growth.SHAPES["grouping sets"], SETS)


def rows(count: int) -> pa.Table:
    """Rows that nearly all are a group of their own in every set."""
    random = np.random.default_rng(1)
    return pa.table({f"c{at}": random.integers(0, 1_000_000, count) for at in range(SETS)})


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_long_epoch_is_interrupted(mode: Literal["per_epoch", "continuous"]) -> None:
    with tidegate.local() as client:
        with (
            client.create_task(PLAN, mode=mode, epoch_seconds=0.3) as task,
            pytest.raises(tidegate.TaskFailed) as failed,
        ):
            task.run_epoch({"t": rows(20_000)})
        assert failed.value.reason == "EPOCH_SECONDS"
        with client.create_task(PLAN, mode=mode) as task:
            assert task.run_epoch({"t": rows(2)}).table().num_rows == 2 * SETS


def test_more_groups_than_fit_into_memory_are_refused() -> None:
    with tidegate.local() as client, client.create_task(PLAN, memory_limit=64 << 20) as task:
        with pytest.raises(tidegate.TaskFailed) as failed:
            task.run_epoch({"t": rows(4_000)})
        assert failed.value.reason == "MEMORY_LIMIT"
