"""Case `profit`: two streams, ads and checkouts, aggregated by windows of a minute, and their windows joined.

The profit of each campaign and minute: a task with two channels beside one with one channel, and DuckDB's query of the
same files. Both aggregations run at the same time, each with an exchange of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
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

from .measure import interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .windows import MINUTE, MINUTES

TWO, ONE, QUERY = "Tidegate, 2 channels", "Tidegate, 1 channel", "DuckDB"
FILES = 4
NAMES = {"ads": "cost", "checkouts": "price"}
BUCKET = "SELECT time_bucket(INTERVAL 1 MINUTE, t) AS w, campaign, sum({1}) AS {1} FROM {0} GROUP BY w, campaign"
SQL = (
    f"SELECT w, campaign, price - cost AS profit FROM ({BUCKET.format('ads', 'cost')}) "
    f"JOIN ({BUCKET.format('checkouts', 'price')}) USING (w, campaign)"
)


def run(settings: Settings) -> Report:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        connection = stack.enter_context(duckdb.connect())
        splits = {name: written(folder, name, settings.window_rows, settings.window_keys) for name in NAMES}
        for name in NAMES:
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}-*.parquet')")
        client = stack.enter_context(tidegate.local(roots=[folder]))
        one, two = (stack.enter_context(client.create_task(plan(), channels=channels)) for channels in (1, 2))
        rows = {one_epoch(one, splits), one_epoch(two, splits), len(connection.sql(SQL).to_arrow_table())}
        if len(rows) != 1:
            raise AssertionError(f"different numbers of windows: {rows}")
        contenders: dict[str, Callable[[], object]] = {
            TWO: partial(one_epoch, two, splits),
            ONE: partial(one_epoch, one, splits),
            QUERY: lambda: connection.sql(SQL).to_arrow_table(),
        }
        runs = interleave(contenders, settings.rounds)
    table = []
    for name in contenders:
        ratio = runs.ratio(name, ONE)
        table.append([name, spread_text(runs.spread(name)), "-" if ratio is None else spread_text(ratio)])
    return Report(
        case="profit",
        title=f"Profit per campaign and minute: {settings.window_rows:,} ads, and as many checkouts",
        header=["", "s", f"over {ONE}"],
        rows=table,
        targets=[Target(f"{TWO} over {ONE}", runs.ratio(TWO, ONE), 0.65)],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )


def plan() -> Any:
    ads, checkouts = (per_minute(name, column) for name, column in NAMES.items())
    joined = windows.interval_join(ads, checkouts, "window_start", keys=["campaign"])
    return joined.to_plan()


def per_minute(name: str, column: str) -> Any:
    columns = {"t": sub.precision_timestamp(6), "campaign": sub.i64, column: sub.i64}
    source = sub.read_named_table(name, columns)
    measures = [sub.f.sum(sub.col(column)).alias(column)]
    return windows.tumbling(source, "t", MINUTE, keys=["campaign"], measures=measures)


def written(folder: Path, name: str, rows: int, campaigns: int) -> list[str]:
    """The files of a stream, in order of time."""
    random = np.random.default_rng(len(name))
    times = np.sort(random.integers(0, MINUTES * 60_000_000, rows))
    columns = [pa.array(times, pa.timestamp("us")), random.integers(0, campaigns, rows), random.integers(0, 100, rows)]
    table = pa.table(columns, names=["t", "campaign", NAMES[name]])
    files = []
    for number in range(FILES):
        start, end = rows * number // FILES, rows * (number + 1) // FILES
        files.append(str(folder / f"{name}-{number}.parquet"))
        pq.write_table(table.slice(start, end - start), files[-1])
    return files


def one_epoch(task: tidegate.Task, splits: dict[str, list[str]]) -> int:
    return int(task.run_epoch(splits).table().num_rows)
