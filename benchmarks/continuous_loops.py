"""Case `continuous-loops`: a view of what can be reached, kept up while single edges come and go.

A random graph of about three edges a node. Each epoch inserts an edge or deletes one that is there, in turn, and
answers with the change; beside it DuckDB's recursive common table expression computes everything again, over loaded
tables, one thread, a few times. In the end the changes, added up, are what DuckDB finds.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import duckdb
import numpy as np
import pyarrow as pa

import tidegate

from . import loop_plans
from .measure import Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

DUCKDB = "DuckDB, everything again"


def run(settings: Settings) -> Report:
    loop = loop_plans.reachable()
    edges = loop_plans.random_graph(settings.view_nodes, 3 * settings.view_nodes)
    roots = pa.table({"a": pa.array([0], pa.int64())})
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local())
        task = stack.enter_context(client.create_task(loop.plan, mode="continuous", channels=1))
        found = [task.run_epoch({"edges": edges, "roots": roots}).table()]
        changes = single_changes(edges, settings)
        seconds: list[float] = []
        for change in changes:
            start = time.perf_counter()
            found.append(task.run_epoch({"edges": tidegate.Changes(change)}).table())
            seconds.append(time.perf_counter() - start)
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        connection.register("given", pa.concat_tables([with_weight(edges, 1), *changes]))
        connection.execute("CREATE TABLE edges AS SELECT a, b FROM given GROUP BY a, b HAVING sum(_weight) > 0")
        connection.register("roots", roots)
        again = interleave({DUCKDB: lambda: connection.sql(loop.sql).to_arrow_table()}, settings.rounds)
        check(connection, loop.sql, pa.concat_tables(found))
    whole = again.spread(DUCKDB).median
    middle, late = (float(np.percentile(seconds, percent)) for percent in (50, 95))
    return Report(
        case="continuous-loops",
        title=f"A reachability view, {edges.num_rows:,} edges, {len(changes):,} epochs of one change",
        header=["", "ms", "share of everything"],
        rows=[
            ["Tidegate, median", f"{middle * 1e3:.3g}", f"{middle / whole:.2%}"],
            ["Tidegate, 95th percentile", f"{late * 1e3:.3g}", f"{late / whole:.2%}"],
            [DUCKDB, spread_text(again.spread(DUCKDB).scaled(1e3)), "100%"],
        ],
        targets=[
            Target("median of a change, share of computing everything", single(middle / whole), 0.01),
            Target("95th percentile, share of computing everything", single(late / whole), 0.05),
        ],
        notes=[],
        figures={"seconds": seconds, "everything": again.seconds},
    )


def single_changes(edges: pa.Table, settings: Settings) -> list[pa.Table]:
    """Edges that come and, of those given, edges that go; none goes twice."""
    random = np.random.default_rng(13)
    gone = random.permutation(edges.num_rows)
    changes = []
    for number in range(settings.view_changes):
        if number % 2:
            changes.append(with_weight(edges.slice(int(gone[number]), 1), -1))
        else:
            a, b = random.integers(0, settings.view_nodes, 2)
            changes.append(with_weight(pa.table({"a": pa.array([int(a)]), "b": pa.array([int(b)])}), 1))
    return changes


def with_weight(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_weight", pa.array([weight] * rows.num_rows, pa.int64()))


def check(connection: duckdb.DuckDBPyConnection, sql: str, changes: pa.Table) -> None:
    connection.register("changes", changes)
    kept = "SELECT a FROM changes GROUP BY a HAVING sum(_weight) <> 0"
    row = connection.execute(
        f"SELECT count(*) FROM (({kept}) EXCEPT ({sql})) UNION ALL SELECT count(*) FROM (({sql}) EXCEPT ({kept}))"
    ).fetchall()
    if row != [(0,), (0,)]:
        raise AssertionError(f"the changes do not add up to what DuckDB finds: {row}")


def single(value: float) -> Spread:
    return Spread(value, value, value)
