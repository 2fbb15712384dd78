"""Case `windows`: windows of an hour over 200 minutes of events, beside DuckDB's query of the same events.

Tumbling, of few keys and of many, and sliding by a minute (60 slices a window), of few keys: the sum and the count of a
column. The task has one channel and DuckDB one thread. Both read a Parquet file; the task is also fed with the rows as
Arrow. Keys are whole numbers, or texts.

Events a second are those of the process's CPU time, with what a task does after its answer. Two figures
are there to compare with: rows that are fed and only counted by DuckDB, and NumPy's groups of columns in memory.
"""

from __future__ import annotations

import tempfile
import time
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

from .measure import Runs, Spread, interleave
from .planning import cpu_times
from .report import Report, Target, spread_text
from .settings import Settings

IDLE_SECONDS = 0.001
HOUR, MINUTE, MINUTES = timedelta(hours=1), timedelta(minutes=1), 200
TUMBLING, SLIDING = "tumbling", "sliding, 60 slices"
TASK, FED, QUERY = "Tidegate, files", "Tidegate, Arrow", "DuckDB, files, 1 thread"
FEEDING, ARRAYS = "fed and counted", "NumPy, columns in memory"
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
    both = TUMBLING, SLIDING
    runs = {
        f"{few:,} keys": of_keys(settings, few, both),
        f"{few:,} texts": of_keys(settings, few, both, texts=True),
        f"{few * 1_000:,} keys": of_keys(settings, few * 1_000, (TUMBLING,)),
    }
    return report(settings, runs)


def of_keys(settings: Settings, keys: int, kinds: tuple[str, ...], *, texts: bool = False) -> tuple[Runs, Runs]:
    """The times of all contenders, and the CPU times of those that are fed. Many keys have few events a slice, so that
    sliding windows would have 60 rows for each event.
    """
    rows = events(settings.window_rows, keys, texts=texts)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "events.parquet"
        pq.write_table(rows, file)
        client = stack.enter_context(tidegate.local(roots=[folder]))
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        connection.execute(f"CREATE VIEW events AS FROM read_parquet('{file}')")
        contenders: dict[str, Callable[[], object]] = {}
        fed: dict[str, Callable[[], object]] = {}
        for kind in kinds:
            sql = SQL[kind]
            task = stack.enter_context(client.create_task(plan(kind, texts=texts)))
            counts = {one_epoch(task, rows), one_query(connection, sql)}
            if len(counts) != 1:
                raise AssertionError(f"{kind}: different numbers of windows: {counts}")
            contenders[f"{kind}: {TASK}"] = partial(one_epoch, task, str(file))
            contenders[f"{kind}: {FED}"] = partial(one_epoch, task, rows)
            fed[f"{kind}: {FED}"] = partial(to_the_end, contenders[f"{kind}: {FED}"])
            contenders[f"{kind}: {QUERY}"] = partial(one_query, connection, sql)
        counting = stack.enter_context(client.create_task(counted(texts=texts)))
        fed[FEEDING] = partial(to_the_end, partial(one_epoch, counting, rows))
        if not texts:
            fed[ARRAYS] = partial(grouped_in_arrays, rows, keys)
        return interleave(contenders, settings.rounds), cpu_times(fed, settings.rounds)


def grouped_in_arrays(rows: pa.Table, keys: int) -> int:
    """The sums and the counts of windows of an hour, by NumPy, and no more."""
    times, key_numbers, numbers = (column.combine_chunks() for column in rows.columns)
    hours = times.cast(pa.int64()).to_numpy() // (60 * 60_000_000)
    groups = hours * keys + key_numbers.to_numpy()
    sums = np.zeros((MINUTES // 60 + 1) * keys, np.int64)
    np.add.at(sums, groups, numbers.to_numpy())
    return int(np.count_nonzero(np.bincount(groups)))


def events(rows: int, keys: int, *, texts: bool = False) -> pa.Table:
    """Events in order of time, always the same."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, MINUTES * 60_000_000, rows))
    columns = [pa.array(times, pa.timestamp("us")), random.integers(0, keys, rows), random.integers(0, 100, rows)]
    if texts:
        columns[1] = pa.array([f"key {number}" for number in range(keys)]).take(pa.array(columns[1]))
    return pa.table(columns, names=["t", "k", "v"])


def source_of(*, texts: bool) -> Any:
    return sub.read_named_table(
        "events", {"t": sub.precision_timestamp(6), "k": sub.string if texts else sub.i64, "v": sub.i64}
    )


def counted(*, texts: bool) -> Any:
    """All rows in one window, without a look at a column but the time."""
    return windows.tumbling(
        source_of(texts=texts), "t", timedelta(days=10_000), measures=[sub.f.count().alias("n")]
    ).to_plan()


def plan(kind: str, *, texts: bool = False) -> Any:
    source = source_of(texts=texts)
    measures = [sub.f.sum(sub.col("v")).alias("s"), sub.f.count(sub.col("v")).alias("n")]
    if kind == TUMBLING:
        return windows.tumbling(source, "t", HOUR, keys=["k"], measures=measures).to_plan()
    return windows.sliding(source, "t", HOUR, MINUTE, keys=["k"], measures=measures).to_plan()


def one_epoch(task: tidegate.Task, split: Any) -> int:
    answer = task.run_epoch({"events": split}).table()
    task.acknowledge()  # as the next epoch would
    return int(answer.num_rows)


def to_the_end(epoch: Callable[[], object]) -> None:
    """The epoch, and all that the task does after the answer. Only then the CPU time is that of the epoch, and not
    partly that of the next one.
    """
    epoch()
    spent = -IDLE_SECONDS
    while time.process_time() - spent >= IDLE_SECONDS:
        spent = time.process_time()
        time.sleep(20 * IDLE_SECONDS)


def one_query(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.sql(sql).to_arrow_table().num_rows)


def report(settings: Settings, runs: dict[str, tuple[Runs, Runs]]) -> Report:
    few, texts, many = runs
    table, targets = [], []
    for keys, (timings, cpu) in runs.items():
        for kind in (kind for kind in SQL if f"{kind}: {QUERY}" in timings.seconds):
            query = f"{kind}: {QUERY}"
            for name in (f"{kind}: {TASK}", f"{kind}: {FED}", query):
                ratio = timings.ratio(name, query)
                cells = [spread_text(timings.spread(name)), "-" if ratio is None else spread_text(ratio), ""]
                table.append([f"{keys}, {name}", *cells])
            targets.append(Target(f"{keys}, {kind}: over {QUERY}", timings.ratio(f"{kind}: {TASK}", query), 1.5))
        table += [
            [f"{keys}, {name}: CPU time", spread_text(cpu.spread(name)), "", spread_text(speed(settings, cpu, name))]
            for name in cpu.seconds
        ]
    for keys, least in ((few, 60), (texts, 20)):
        for kind in SQL:
            speeds = speed(settings, runs[keys][1], f"{kind}: {FED}")
            targets.append(Target(f"{keys}, {kind}: million events a CPU second", speeds, least, "at least"))
    for keys in (few, texts):
        ratio = runs[keys][1].ratio(f"{SLIDING}: {FED}", f"{TUMBLING}: {FED}")
        targets.append(Target(f"{keys}: sliding over tumbling, CPU time", ratio, 1.3))
    targets.append(Target(f"{many} over {few}, tumbling, CPU time", over(runs[many][1], runs[few][1]), 3))
    notes = [f"{name}: {why}" for pair in runs.values() for part in pair for name, why in part.left_out.items()]
    return Report(
        case="windows",
        title=f"Windows of an hour: {settings.window_rows:,} events",
        header=["", "s", f"over {QUERY}", "million events a CPU second"],
        rows=table,
        targets=targets,
        notes=notes,
        figures={
            "seconds": {keys: timings.seconds for keys, (timings, _) in runs.items()},
            "cpu": {keys: cpu.seconds for keys, (_, cpu) in runs.items()},
        },
    )


def speed(settings: Settings, cpu: Runs, name: str) -> Spread:
    """Million events for each second of CPU time."""
    return Spread.of(tuple(settings.window_rows / seconds / 1e6 for seconds in cpu.seconds[name]))


def over(cpu: Runs, other: Runs) -> Spread:
    """The tumbling windows of one case over those of another, round by round."""
    name = f"{TUMBLING}: {FED}"
    return Spread.of(tuple(a / b for a, b in zip(cpu.seconds[name], other.seconds[name], strict=True)))
