"""Plans over sorted sources: a task in this process that reads Parquet files, beside DuckDB's query of the same files.

The plan says that the sources are sorted by their first columns, so that the task runs a streaming aggregate or a merge
join. DuckDB reads with one thread, which a task of one channel has, and hands its rows out as Arrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tidegate

from .measure import Runs, interleave
from .report import spread_text
from .settings import Settings

TASK, QUERY = "Tidegate task over files", "DuckDB query of files, 1 thread"
GROUP_ROWS = 122_880
"""Rows of a row group: what DuckDB itself writes."""
BATCH_ROWS = 65_536


def run(plan: bytes, sql: str, tables: Mapping[str, pa.Table], settings: Settings) -> Runs:
    """`sql` is the plan's query of the tables by their names."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = {name: written(table, folder / f"{name}.parquet") for name, table in tables.items()}
        client = stack.enter_context(tidegate.local(roots=[folder]))
        task = stack.enter_context(client.create_task(plan))
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        for name, path in files.items():
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{path}')")
        contenders: dict[str, Callable[[], object]] = {
            TASK: partial(one_epoch, task, files),
            QUERY: partial(one_query, connection, sql),
        }
        counts = {name: contender() for name, contender in contenders.items()}
        if len(set(counts.values())) != 1:
            raise AssertionError(f"different numbers of rows: {counts}")
        if not {"MergeJoin", "StreamingAggregate"} & {operator.operator for operator in task.statistics().operators}:
            raise AssertionError("the plan has no operator that relies on order")
        return interleave(contenders, settings.rounds)


def rows(runs: Runs) -> Iterator[list[str]]:
    """Of a report: who, how long, and over DuckDB."""
    for name in runs.seconds:
        ratio = runs.ratio(name, QUERY)
        yield [name, spread_text(runs.spread(name)), "-" if ratio is None else spread_text(ratio)]


def written(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    return path


def one_epoch(task: tidegate.Task, files: Mapping[str, Path]) -> int:
    return sum(batch.num_rows for batch in task.run_epoch(files))


def one_query(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    with connection.sql(sql).to_arrow_reader(BATCH_ROWS) as reader:
        return sum(batch.num_rows for batch in reader)
