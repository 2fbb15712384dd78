"""Case `changes`: small changes of a large state.

Rows joined with a tenth as many others, summed and counted by group: a continuous task in this process that holds them
all, given 1,000 changes at a time (half of them deletions), against DuckDB computing the whole answer again.
"""

from __future__ import annotations

from contextlib import ExitStack

import duckdb
import numpy as np
import pyarrow as pa

import tidegate

from . import plans
from .measure import Runs, interleave
from .report import Report, Target, spread_text
from .services import embedded
from .settings import Settings

TASK, DUCKDB = "Tidegate embedded, 1,000 changes", "DuckDB, everything again"
CHANGES = 1_000
_GROUP_ROWS = 100
_STATE_BYTES_A_ROW = 512
_QUERY = "SELECT g, sum(v) AS total, count(*) AS rows FROM rows JOIN groups ON rows.k = groups.j GROUP BY g"


def run(settings: Settings) -> Report:
    count = settings.changes_rows
    inputs = join_inputs(count)
    with ExitStack() as stack:
        client = stack.enter_context(embedded())
        memory = max(1 << 30, _STATE_BYTES_A_ROW * count)
        task = stack.enter_context(
            client.create_task(plans.grouped_join(), mode="continuous", memory_limit=memory, queue_bytes=memory)
        )
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        for name, table in inputs.items():
            connection.register(name, table)
        task.run_epoch(inputs)
        changes = Changing(inputs["rows"])
        contenders = {
            TASK: lambda: task.run_epoch({"rows": changes.next()}).table(),
            DUCKDB: lambda: connection.execute(_QUERY).fetchnumpy(),
        }
        runs = interleave(contenders, max(settings.rounds, 3) * 3)
    return report(settings, runs)


def join_inputs(count: int) -> dict[str, pa.Table]:
    """The tables of `plans.grouped_join`: `count` rows, and a tenth as many to join them with."""
    rng = np.random.default_rng(1)
    rows = pa.table({"k": rng.integers(0, count // 10, count), "v": rng.integers(0, 1 << 30, count)})
    groups = pa.table({"j": np.arange(count // 10), "g": np.arange(count // 10) // _GROUP_ROWS})
    return {"rows": rows, "groups": groups}


class Changing:
    """So many changes at a time: rows that go, with others in their place, and then the same the other way round."""

    def __init__(self, rows: pa.Table, changes: int = CHANGES) -> None:
        half = changes // 2
        self._gone = rows.take(np.linspace(0, rows.num_rows - 1, half, dtype=np.int64))
        self._come = pa.table({"k": self._gone.column("k"), "v": np.arange(half)})

    def next(self) -> tidegate.Changes:
        both = pa.concat_tables([self._gone, self._come])
        weights = np.repeat([-1, 1], [self._gone.num_rows, self._come.num_rows])
        self._gone, self._come = self._come, self._gone
        return tidegate.Changes(both.append_column("weight", pa.array(weights)), column="weight")


def report(settings: Settings, runs: Runs) -> Report:
    ratio = runs.ratio(TASK, DUCKDB)
    rows = []
    for name in runs.seconds:
        beside = runs.ratio(name, DUCKDB)
        cost = runs.spread(name).scaled(1e3)
        rows.append([name, spread_text(cost), "-" if beside is None else spread_text(beside)])
    return Report(
        case="changes",
        title=f"{CHANGES:,} changes through a join and an aggregate over {settings.changes_rows:,} rows",
        header=["", "ms", "ratio"],
        rows=rows,
        targets=[Target("the task over DuckDB", ratio, 0.01)],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )
