"""Case `static-join`: small epochs joined with a large static table.

Epochs of 1,000 rows, joined by a plan's own inner join with a table of a million rows bound to the task: a task in this
process, whose index over the table is kept, against DuckDB, which makes its hash table anew for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle

import duckdb
import pyarrow as pa

import tidegate

from . import plans
from .lookup import EPOCHS, ROWS, asked_anew, probes, rows_of_table
from .measure import Runs, interleave
from .report import Report, Target, spread_text
from .services import embedded
from .settings import Settings

TASK, DUCKDB = "Tidegate embedded, a kept index", "DuckDB, a hash table anew"
_COLUMNS = ("int64", "v", "w")


def run(settings: Settings) -> Report:
    table = rows_of_table(settings.lookup_rows)
    probe_tables = [probe_table.combine_chunks() for probe_table in probes(table, "int64", EPOCHS, ROWS)]
    with ExitStack() as stack:
        client = stack.enter_context(embedded())
        task = stack.enter_context(
            client.create_task(plans.static_join(), tables={"kept": table.select(list(_COLUMNS))})
        )
        connection = stack.enter_context(duckdb.connect(config={"threads": settings.threads}))
        connection.register("given_table", table)
        connection.execute("CREATE TABLE kept AS SELECT * FROM given_table")
        checked(task, connection, probe_tables[0])
        turns: Iterator[pa.Table] = cycle(probe_tables)
        contenders: dict[str, Callable[[], object]] = {
            TASK: lambda: [one_epoch(task, next(turns)) for _ in range(EPOCHS)],
            DUCKDB: lambda: [asked_anew(connection, "int64", next(turns)) for _ in range(EPOCHS)],
        }
        runs = interleave(contenders, settings.rounds)
    return report(
        settings, Runs({n: tuple(s / EPOCHS for s in times) for n, times in runs.seconds.items()}, runs.left_out)
    )


def one_epoch(task: tidegate.Task, probe_table: pa.Table) -> pa.Table:
    return task.run_epoch({"given": probe_table}).table()


def checked(task: tidegate.Task, connection: duckdb.DuckDBPyConnection, probe_table: pa.Table) -> None:
    """The answers are the same; the index is made here, once."""
    mine = one_epoch(task, probe_table).sort_by("n")
    other = asked_anew(connection, "int64", probe_table).sort_by("n")
    if not mine.column("w").equals(other.column("w")):
        raise ValueError("the answers differ")


def report(settings: Settings, runs: Runs) -> Report:
    rows = []
    for name in runs.seconds:
        cost = runs.spread(name).scaled(1e3)
        ratio = runs.ratio(name, TASK)
        rows.append([name, spread_text(cost), "-" if ratio is None else spread_text(ratio)])
    cost_of_task = runs.spread(TASK).scaled(1e3) if TASK in runs.seconds else None
    return Report(
        case="static-join",
        title=f"Epochs of {ROWS:,} rows joined with {settings.lookup_rows:,} static rows",
        header=["", "ms per epoch", "ratio"],
        rows=rows,
        targets=[
            Target("ms per epoch, embedded", cost_of_task, 2.0),
            Target("DuckDB over the task", runs.ratio(DUCKDB, TASK), 1.0, "at least"),
        ],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )
