"""Case `windows`: windows of an hour over 200 minutes of events, beside DuckDB's query of the same events.

Tumbling, of few keys and of many, and sliding by a minute (60 slices a window), of few keys: the sum and the count of a
column. The task has one channel and DuckDB one thread. Both read a Parquet file; the task is also fed with the rows as
Arrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate
from tidegate import windows

from .measure import Runs, interleave
from .report import Report, Target, spread_text
from .settings import Settings

HOUR, MINUTE, MINUTES = timedelta(hours=1), timedelta(minutes=1), 200
TUMBLING, SLIDING = "tumbling", "sliding, 60 slices"
TASK, FED, QUERY = "Tidegate, files", "Tidegate, Arrow", "DuckDB, files, 1 thread"
SQL = {
    TUMBLING: "SELECT time_bucket(INTERVAL 1 HOUR, t) AS w, k, sum(v), count(v) FROM events GROUP BY w, k",
    SLIDING: """
        SELECT m - i * INTERVAL 1 MINUTE AS w, k, sum(s), sum(n) FROM (
            SELECT *, unnest(range(60)) AS i FROM (
                SELECT time_bucket(INTERVAL 1 MINUTE, t) AS m, k, sum(v) AS s, count(v) AS n FROM events GROUP BY m, k
            )
        ) GROUP BY w, k""",
}


def run(settings: Settings) -> Report:
    few = settings.window_keys
    runs = {
        f"{few:,} keys": of_keys(settings, few, (TUMBLING, SLIDING)),
        f"{few * 1_000:,} keys": of_keys(settings, few * 1_000, (TUMBLING,)),
    }
    return report(settings, runs, f"{few:,} keys")


def of_keys(settings: Settings, keys: int, kinds: tuple[str, ...]) -> Runs:
    """Many keys have few events a slice, so that sliding windows would have 60 rows for each event."""
    rows = events(settings.window_rows, keys)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "events.parquet"
        pq.write_table(rows, file)
        client = stack.enter_context(tidegate.local(roots=[folder]))
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        connection.execute(f"CREATE VIEW events AS FROM read_parquet('{file}')")
        contenders: dict[str, Callable[[], object]] = {}
        for kind in kinds:
            sql = SQL[kind]
            task = stack.enter_context(client.create_task(plan(kind)))
            counts = {one_epoch(task, rows), one_query(connection, sql)}
            if len(counts) != 1:
                raise AssertionError(f"{kind}: different numbers of windows: {counts}")
            contenders[f"{kind}: {TASK}"] = partial(one_epoch, task, str(file))
            contenders[f"{kind}: {FED}"] = partial(one_epoch, task, rows)
            contenders[f"{kind}: {QUERY}"] = partial(one_query, connection, sql)
        return interleave(contenders, settings.rounds)


def events(rows: int, keys: int) -> pa.Table:
    """Events in order of time, always the same."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, MINUTES * 60_000_000, rows))
    columns = [pa.array(times, pa.timestamp("us")), random.integers(0, keys, rows), random.integers(0, 100, rows)]
    return pa.table(columns, names=["t", "k", "v"])


def plan(kind: str) -> Any:
    source = sub.read_named_table("events", {"t": sub.precision_timestamp(6), "k": sub.i64, "v": sub.i64})
    measures = [sub.f.sum(sub.col("v")).alias("s"), sub.f.count(sub.col("v")).alias("n")]
    if kind == TUMBLING:
        return windows.tumbling(source, "t", HOUR, keys=["k"], measures=measures).to_plan()
    return windows.sliding(source, "t", HOUR, MINUTE, keys=["k"], measures=measures).to_plan()


def one_epoch(task: tidegate.Task, split: Any) -> int:
    return int(task.run_epoch({"events": split}).table().num_rows)


def one_query(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.sql(sql).to_arrow_table().num_rows)


def report(settings: Settings, runs: dict[str, Runs], few: str) -> Report:
    table, targets = [], []
    for keys, timings in runs.items():
        for kind in SQL:
            query = f"{kind}: {QUERY}"
            if query not in timings.seconds:
                continue
            for name in (f"{kind}: {TASK}", f"{kind}: {FED}", query):
                ratio = timings.ratio(name, query)
                cells = [spread_text(timings.spread(name)), "-" if ratio is None else spread_text(ratio)]
                table.append([f"{keys}, {name}", *cells])
            targets.append(Target(f"{keys}, {kind}: over {QUERY}", timings.ratio(f"{kind}: {TASK}", query), 1.5))
    sliding = runs[few].ratio(f"{SLIDING}: {TASK}", f"{TUMBLING}: {TASK}")
    targets.append(Target(f"{few}: sliding over tumbling", sliding, 1.3))
    return Report(
        case="windows",
        title=f"Windows of an hour: {settings.window_rows:,} events",
        header=["", "s", f"over {QUERY}"],
        rows=table,
        targets=targets,
        notes=[f"{name}: {why}" for timings in runs.values() for name, why in timings.left_out.items()],
        figures={"seconds": {keys: timings.seconds for keys, timings in runs.items()}},
    )
