"""The bytes that a continuous task keeps, by the count of its statistics."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.proto.values import MIB

from ..loops.queries import QUERIES, SCHEMAS
from .histories import planned

PAIR: Final = pa.schema([("k", pa.int64()), ("v", pa.int64())])
MANY: Final = 20_000


def test_a_loop_that_labels_components_keeps_a_few_hundred_bytes_an_edge() -> None:
    """Of an edge it keeps both directions, and of a node each label that it ever had with its round."""
    edges = 20_000
    chooser = np.random.default_rng(7)
    ends = {name: chooser.integers(0, edges // 2, edges) for name in "ab"}
    table = pa.table({**ends, "c": np.zeros(edges, np.int64)}, SCHEMAS["edges"])
    with (
        tidegate.local(roots=()) as client,
        client.create_task(QUERIES["components"].plan(), mode="continuous") as task,
    ):
        assert task.run_epoch({"edges": table}).rows > 0
        assert state_bytes(task) <= 500 * edges


@pytest.mark.parametrize("exists", ["EXISTS", "NOT EXISTS"])
@pytest.mark.parametrize("comparison", ["<", ">="])
def test_exists_by_an_inequality_keeps_its_rows_and_no_pairs(exists: str, comparison: str) -> None:
    """All pairs are 400 million; the limit has room for a few bytes a row."""
    sql = f"SELECT k, v FROM l WHERE {exists} (SELECT 1 FROM r WHERE r.v {comparison} l.v)"
    order = np.random.default_rng(5).permutation(MANY)
    left, right = (pa.table({"k": np.arange(MANY), "v": values}, PAIR) for values in (order, order[::-1] + MANY // 2))
    least, greatest = MANY // 2, MANY // 2 + MANY - 1
    met = {"<": order > least, ">=": order <= greatest}[comparison]
    expected = int((met if exists == "EXISTS" else ~met).sum())
    with (
        tidegate.local(roots=()) as client,
        client.create_task(planned(sql, dict.fromkeys("lr", PAIR)), mode="continuous", memory_limit=64 * MIB) as task,
    ):
        assert task.run_epoch({"l": left, "r": right}).table().num_rows == expected
        assert state_bytes(task) <= 200 * 2 * MANY


def state_bytes(task: tidegate.Task) -> int:
    return sum(operator.state_bytes for operator in task.statistics().operators)
