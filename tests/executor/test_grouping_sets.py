"""An aggregate with many grouping sets: its epochs end when they take too long, and keep to their memory."""

from __future__ import annotations

import json
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


def empty_sets(count: int) -> str:
    """A plan whose aggregate has grouping sets without keys, and no measure."""
    whole = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
    schema = {"names": ["a"], "struct": {"types": [whole], "nullability": "NULLABILITY_REQUIRED"}}
    read = {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}
    root = {"input": {"aggregate": {"input": read, "groupings": [{}] * count}}, "names": ["set"]}
    return json.dumps({"version": {"producer": "another", "minorNumber": 85}, "relations": [{"root": root}]})


@pytest.mark.parametrize("count", [2, 65])
@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("values", [[1, None], []])
def test_sets_without_keys_and_measures_have_a_row_each(
    mode: Literal["per_epoch", "continuous"], count: int, values: list[int | None]
) -> None:
    with tidegate.local() as client, client.create_task(empty_sets(count), mode=mode) as task:
        rows_of_sets = task.run_epoch({"t": pa.table({"a": pa.array(values, pa.int64())})}).table()
        assert sorted(rows_of_sets["set"].to_pylist()) == list(range(count))
