"""Case `continuous-loops`: a view of what can be reached, kept up while single edges come and go.

A random graph of about three edges a node. Each epoch inserts an edge or deletes one that is there, in turn, and
answers with the change; every other deletion takes an edge that carries the result: the only one by which a node was
reached in its round. Beside it DuckDB's recursive common table expression computes everything again, over loaded
tables, one thread, a few times. Then the root's own edges go and come back, beside a fresh task that is given all. In
the end the changes, added up, are what DuckDB finds. Over a smaller graph such changes go to Pathway's streaming
`iterate` as well, where it is there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import tidegate

from . import loop_plans
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings
from .view_peers import Beside, beside_pathway

DUCKDB = "DuckDB, everything again"
INSERT, RANDOM, CARRYING = "insert", "delete any edge", "delete one that carries"
EVERYTHING = "everything to a fresh task"
ROOTS = "an edge of the root"
_ROOT = 0


def run(settings: Settings) -> Report:
    loop = loop_plans.reachable()
    edges = loop_plans.random_graph(settings.view_nodes, 3 * settings.view_nodes)
    roots = pa.table({"a": pa.array([_ROOT], pa.int64())})
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local())
        task = stack.enter_context(client.create_task(loop.plan, mode="continuous", channels=1))
        answers = [task.run_epoch({"edges": edges, "roots": roots}).table()]
        changes = single_changes(edges, settings)
        seconds: dict[str, list[float]] = {INSERT: [], RANDOM: [], CARRYING: []}
        for kind, change in changes:
            taken, answer = timed(task, change)
            seconds[kind].append(taken)
            answers.append(answer)
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        connection.register("given", pa.concat_tables([with_weight(edges, 1), *(change for _, change in changes)]))
        connection.execute("CREATE TABLE edges AS SELECT a, b FROM given GROUP BY a, b HAVING sum(_weight) > 0")
        connection.register("roots", roots)
        again = interleave({DUCKDB: lambda: connection.sql(loop.sql).to_arrow_table()}, settings.rounds)
        check(connection, loop.sql, pa.concat_tables(answers))
        near = at_the_root(client, loop.plan, {"edges": edges, "roots": roots}, settings.rounds)
        smaller = replace(settings, view_nodes=settings.view_peer_nodes)
        graph = loop_plans.random_graph(smaller.view_nodes, 3 * smaller.view_nodes)
        single = [change for _, change in single_changes(graph, smaller)]
        beside = beside_pathway(client, loop.plan, graph, roots, single)
    return report(edges.num_rows, seconds, again, near, beside)


def timed(task: tidegate.Task, change: pa.Table) -> tuple[float, pa.Table]:
    start = time.perf_counter()
    answer = task.run_epoch({"edges": tidegate.Changes(change)}).table()
    return time.perf_counter() - start, answer


def at_the_root(client: tidegate.Client, plan: bytes, tables: Mapping[str, pa.Table], rounds: int) -> Runs:
    """Edges of the root that go and come back, one after the other; in turn with a fresh task that is given all."""
    edges = tables["edges"]
    own = edges.filter(pc.equal(edges["a"], _ROOT))
    changes = cycle([with_weight(own.slice(at, 1), weight) for at in range(own.num_rows) for weight in (-1, 1)])

    def fresh() -> None:
        with client.create_task(plan, mode="continuous", channels=1) as task:
            task.run_epoch(dict(tables)).table()

    with client.create_task(plan, mode="continuous", channels=1) as task:
        task.run_epoch(dict(tables)).table()
        return interleave({ROOTS: lambda: timed(task, next(changes)), EVERYTHING: fresh}, rounds)


def single_changes(edges: pa.Table, settings: Settings) -> list[tuple[str, pa.Table]]:
    """Edges that come and, of those given, edges that go, in turn, as many of each; none goes twice."""
    random = np.random.default_rng(13)
    carrying = random.permutation(carriers(edges, settings.view_nodes))[: settings.view_changes // 2]
    others = np.setdiff1d(np.arange(edges.num_rows), carrying)
    others = random.choice(others, settings.view_changes - len(carrying), replace=False)
    gone = [(CARRYING, at) for at in carrying.tolist()] + [(RANDOM, at) for at in others.tolist()]
    changes = []
    for number in random.permutation(len(gone)).tolist():
        a, b = random.integers(0, settings.view_nodes, 2).tolist()
        changes.append((INSERT, with_weight(pa.table({"a": [a], "b": [b]}), 1)))
        kind, at = gone[number]
        changes.append((kind, with_weight(edges.slice(at, 1), -1)))
    return changes


def carriers(edges: pa.Table, nodes: int) -> npt.NDArray[Any]:
    """Edges that carry what can be reached: their end is reached in its round by none but them."""
    start, end = edges["a"].to_numpy(), edges["b"].to_numpy()
    rounds = np.full(nodes, -1)
    rounds[_ROOT] = number = 0
    while True:
        further = end[rounds[start] == number]
        further = further[rounds[further] < 0]
        if not len(further):
            break
        number += 1
        rounds[further] = number
    first = (rounds[start] >= 0) & (rounds[start] + 1 == rounds[end])
    supports = np.bincount(end[first], minlength=nodes)
    return np.flatnonzero(first & (supports[end] == 1))


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


def report(edges: int, seconds: Mapping[str, list[float]], again: Runs, near: Runs, beside: Beside) -> Report:
    whole = again.spread(DUCKDB).median
    every = [one for times in seconds.values() for one in times]
    rows, targets = [], []
    for percent, name, bound in ((50, "median", 0.01), (95, "95th percentile", 0.05)):
        for kind, taken in {**seconds, "all": every}.items():
            value = float(np.percentile(taken, percent))
            rows.append([f"Tidegate, {kind}: {name}", f"{value * 1e3:.3g}", f"{value / whole:.2%}"])
        share = single(float(np.percentile(every, percent)) / whole)
        targets.append(Target(f"{name} of a change, share of computing everything", share, bound))
    for kind in (DUCKDB, *near.seconds):
        spread = (again if kind == DUCKDB else near).spread(kind)
        rows.append([kind, spread_text(spread.scaled(1e3)), f"{spread.median / whole:.0%}"])
    for name, times in beside.runs.seconds.items():
        median, most = np.percentile(times, (50, 95)) * 1e3
        rows.append([f"{name}: median, 95th percentile", f"{median:.3g}, {most:.3g}", "-"])
    return Report(
        case="continuous-loops",
        title=f"A reachability view, {edges:,} edges, {len(every):,} epochs of one change",
        header=["", "ms", "share of everything"],
        rows=rows,
        targets=[*targets, Target(f"{ROOTS} over {EVERYTHING}", near.ratio(ROOTS, EVERYTHING), 2)],
        notes=beside.missing,
        figures={
            "seconds": dict(seconds),
            "everything": again.seconds,
            "root": near.seconds,
            "beside": beside.runs.seconds,
        },
    )


def single(value: float) -> Spread:
    return Spread(value, value, value)
