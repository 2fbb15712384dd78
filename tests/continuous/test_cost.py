"""The cost of a small change beside a large state, counted in rows that operators look at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

import tidegate

from ..executor.plans import call, column, joined, limited, plan, read, sorted_by
from ..loops.queries import QUERIES, SCHEMAS

CHANGES = 300
SMALL, LARGE = 4_000, 40_000


def totals() -> dict[str, object]:
    """The sum of v for each g, over rows joined with the groups of their keys."""
    pairs = joined(read("rows", "k", "v"), read("groups", "k", "g"), 2)
    phase = {"phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT"}
    measure = {"measure": call("sum:i64", column(1)) | phase}
    groups = [{"groupingExpressions": [column(3)]}]
    return {"aggregate": {"input": pairs, "groupings": groups, "measures": [measure]}}


def first_rows() -> dict[str, object]:
    return limited(sorted_by(read("rows", "k", "v"), 1), 10)


def touched(document: Mapping[str, object], names: tuple[str, ...], rows: int) -> dict[tuple[str, str], int]:
    """By operator, the rows that it looks at for the same number of changes over so many rows."""
    rng = np.random.default_rng(rows)
    keys, values = rng.permutation(rows), rng.integers(0, 1 << 40, rows)
    table = pa.table({"k": keys, "v": values})
    groups = pa.table({"k": np.arange(rows), "g": np.arange(rows) // 10})
    leading = np.flatnonzero(keys % 10 == 0)  # one of each group
    gone = table.take(rng.choice(leading, CHANGES, replace=False)).append_column("w", pa.array([-1] * CHANGES))
    with tidegate.local() as client, client.create_task(plan(document, *names), mode="continuous") as task:
        sources = {source.name for source in task.info().sources}
        task.run_epoch({name: data for name, data in {"rows": table, "groups": groups}.items() if name in sources})
        before = counts(task)
        task.run_epoch({"rows": tidegate.Changes(gone, column="w")})
        return {operator: count - before[operator] for operator, count in counts(task).items()}


def counts(task: tidegate.Task) -> dict[tuple[str, str], int]:
    rows_touched: dict[tuple[str, str], int] = {}
    for operator in task.statistics().operators:
        key = (operator.operator, operator.place)
        rows_touched[key] = rows_touched.get(key, 0) + operator.rows_touched
    return rows_touched


@pytest.mark.parametrize(
    ("document", "names"), [(totals(), ("g", "sum")), (first_rows(), ("k", "v"))], ids=["join and group", "first rows"]
)
def test_a_change_touches_as_many_rows_of_a_large_state_as_of_a_small_one(
    document: Mapping[str, object], names: tuple[str, ...]
) -> None:
    small, large = (touched(document, names, rows) for rows in (SMALL, LARGE))
    assert sum(small.values()) > CHANGES
    assert {operator: large[operator] for operator in small if large[operator] > 1.3 * small[operator]} == {}


def test_the_first_load_of_a_least_label_touches_at_most_four_times_what_the_per_epoch_loop_does() -> None:
    """Over links between random nodes, each of which takes the least label that it reaches: about 1.5 times as much."""
    links = 20_000
    chooser = np.random.default_rng(7)
    ends = {name: chooser.integers(0, links // 2, links) for name in "ab"}
    edges = pa.table({**ends, "c": np.zeros(links, np.int64)}, SCHEMAS["edges"])
    looked_at = {}
    for mode in ("per_epoch", "continuous"):
        plan_of_loop = QUERIES["components"].plan()
        with tidegate.local() as client, client.create_task(plan_of_loop, mode=mode, loops="general") as task:
            task.run_epoch({"edges": edges}).table()
            looked_at[mode] = sum(counts(task).values())
    assert links < looked_at["continuous"] <= 4 * looked_at["per_epoch"]
    assert looked_at["per_epoch"] <= 200 * links
