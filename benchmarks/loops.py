"""Case `loops`: loops beside DuckDB's recursive common table expression, one channel beside one thread.

What can be reached from one node, over a chain, a grid and a random graph; and all pairs of nodes that a chain and a
smaller grid connect (of the random graph they would be hundreds of millions). Each loop runs as the one recursive
statement that it is planned as, and, as any other loop would, round by round.

A task is given its edges in every epoch, as Arrow tables, and gives its rows in order, as one. DuckDB is there twice:
the targets are over the query alone, of tables that were loaded before, in any order, which favours DuckDB; beside it
DuckDB does the same work, loading the Arrow tables first and putting the rows in order. Every answer is fetched whole
as an Arrow table.

Pathway's `iterate` runs the same loops, and Spark's recursive query one over a short chain, beside both ways again.

The rounds run once more over the same graph with its nodes numbered far apart, which shows what the array of counts
(`DenseCounts`) saves.

What a round costs is the difference between a loop of many rounds and one of few: one that only hands on a row, which
is scheduling and bookkeeping, and one that joins a handful of rows and keeps the distinct ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

import tidegate

from . import loop_plans
from .loop_peers import PATHWAY, SPARK, Peer, loop_peer, missing
from .loop_plans import Loop
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .settings import Settings

STATEMENT = "Tidegate, one statement"
ROUNDS = "Tidegate, round by round"
FAR_APART = "Tidegate, round by round, nodes numbered far apart"
DUCKDB = "DuckDB, recursive CTE"
SAME_WORK = "DuckDB, loading and in order"

FEW_ROUNDS = 2
HANDFUL = 8
SHORT = 20
PEER_ROUNDS = 2
FAR = 4_096
"""The distance between numbers of nodes at which an array of counts would be nearly empty."""
COUNTED_FASTER = 1.1
"""How many times as fast the array of counts has to be, at the least, so that it is worth its code."""
FASTER = 10
"""How many times as fast as a peer a loop is to be."""


@dataclass(frozen=True)
class Workload:
    """A loop over a graph. `rounds_bound`: how many times DuckDB's time it may take round by round."""

    loop: Loop
    tables: Mapping[str, pa.Table]
    rounds_bound: float


@dataclass(frozen=True)
class Fed:
    """A plan, and what its sources are given."""

    plan: bytes
    tables: Mapping[str, pa.Table]


def run(settings: Settings) -> Report:
    rows, targets, notes = [], [], []
    figures: dict[str, object] = {}
    for name, workload in workloads(settings).items():
        with ExitStack() as stack:
            contenders = set_up(workload, stack)
            count = counted(contenders)
            runs = interleave(contenders, settings.rounds)
            beside = beside_peer(PATHWAY, workload, count, contenders, min(settings.rounds, PEER_ROUNDS))
        rows += rows_of(name, runs, runs.seconds) + rows_of(name, beside, [PATHWAY.name])
        targets += [*targets_of(name, workload, runs), *peer_targets(name, PATHWAY, beside)]
        notes += notes_of(name, runs) + notes_of(name, beside)
        figures[name] = {"seconds": runs.seconds, "beside peers": beside.seconds, "stopped": beside.stopped}
    name, workload = short_chain(settings)
    with ExitStack() as stack:
        contenders = set_up(workload, stack)
        count = counted(contenders)
        beside = beside_peer(SPARK, workload, count, contenders, min(settings.rounds, PEER_ROUNDS))
    rows += rows_of(name, beside, [STATEMENT, ROUNDS, DUCKDB, SPARK.name])
    targets += peer_targets(name, SPARK, beside)
    notes += notes_of(name, beside)
    figures[name] = {"seconds": beside.seconds, "stopped": beside.stopped}
    for name, bound, many, few in rounds_loops(settings.loop_chain):
        spread, seconds = a_round(many, few, settings.loop_chain - FEW_ROUNDS, settings.rounds)
        rows.append([name, ROUNDS, _milliseconds(spread), "-"])
        targets.append(Target(f"{name}: microseconds", spread.scaled(1e6), bound))
        figures[name] = {"seconds": seconds}
    return Report(
        case="loops",
        title="Loops, per epoch, one channel",
        header=["", "", "ms", "over DuckDB"],
        rows=rows,
        targets=targets,
        notes=[*notes, *missing(PATHWAY, SPARK)],
        figures=figures,
    )


def workloads(settings: Settings) -> dict[str, Workload]:
    reach, closure = loop_plans.reachable(), loop_plans.closure()
    chain = loop_plans.chain(settings.loop_chain)
    grid = loop_plans.grid(settings.loop_grid)
    small_grid = loop_plans.grid(max(settings.loop_grid // 6, 2))
    graph = loop_plans.random_graph(settings.loop_nodes, 3 * settings.loop_nodes)
    roots = pa.table({"a": pa.array([0], pa.int64())})
    return {
        "reachable, chain": Workload(reach, {"edges": chain, "roots": roots}, 10),
        "reachable, grid": Workload(reach, {"edges": grid, "roots": roots}, 4),
        "reachable, random": Workload(reach, {"edges": graph, "roots": roots}, 4),
        "closure, chain": Workload(closure, {"edges": chain}, 10),
        "closure, grid": Workload(closure, {"edges": small_grid}, 4),
    }


def short_chain(settings: Settings) -> tuple[str, Workload]:
    """What Spark can be asked for."""
    edges = min(SHORT, settings.loop_chain)
    roots = pa.table({"a": pa.array([0], pa.int64())})
    loop = loop_plans.reachable()
    return f"reachable, chain of {edges}", Workload(loop, {"edges": loop_plans.chain(edges), "roots": roots}, 10)


def rounds_loops(rounds: int) -> Iterator[tuple[str, float, Fed, Fed]]:
    """For each kind of round its name, how many microseconds it may take, and a loop of many of them and one of few."""
    row = pa.table({"a": [1], "b": [2]})
    many, few = (Fed(loop_plans.swapping(count), {"edges": row}) for count in (rounds, FEW_ROUNDS))
    yield "a round that hands on a row", 150, many, few
    roots = pa.table({"a": range(HANDFUL)})
    reach = loop_plans.reachable().plan
    chains = ({"edges": loop_plans.chains(count, HANDFUL), "roots": roots} for count in (rounds, FEW_ROUNDS))
    many, few = (Fed(reach, chain) for chain in chains)
    yield "a round of join and distinct with a handful of rows", 500, many, few


def a_round(many: Fed, few: Fed, more: int, times: int) -> tuple[Spread, Mapping[str, tuple[float, ...]]]:
    """What a round takes, if `many` has so many `more` of them than `few`; and what both took."""
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local())
        contenders = {}
        for name, fed in (("many", many), ("few", few)):
            task = stack.enter_context(client.create_task(fed.plan, channels=1, loops="general"))
            contenders[name] = partial(epoch, task, fed.tables)
        seconds = interleave(contenders, times).seconds
    pairs = zip(seconds["many"], seconds["few"], strict=True)
    return Spread.of(tuple((long - short) / max(more, 1) for long, short in pairs)), seconds


def set_up(workload: Workload, stack: ExitStack) -> dict[str, Callable[[], int]]:
    """Contenders that give their number of rows."""
    client = stack.enter_context(tidegate.local())
    statement = stack.enter_context(client.create_task(workload.loop.plan, channels=1))
    general = stack.enter_context(client.create_task(workload.loop.plan, channels=1, loops="general"))
    connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
    load(connection, workload.tables)
    return {
        STATEMENT: partial(epoch, statement, workload.tables),
        ROUNDS: partial(epoch, general, workload.tables),
        FAR_APART: partial(epoch, general, far_apart(workload.tables)),
        DUCKDB: partial(query, connection, workload.loop.sql),
        SAME_WORK: partial(load_and_query, connection, workload),
    }


def beside_peer(
    peer: Peer, workload: Workload, count: int, contenders: Mapping[str, Callable[[], int]], rounds: int
) -> Runs:
    """The peer in turn with both ways and with DuckDB's query; nothing where the peer is not there."""
    with ExitStack() as stack:
        kind = "reach" if "roots" in workload.tables else "closure"
        run = loop_peer(peer, kind, workload.tables, count, stack)
        if run is None:
            return Runs({})
        beside = {name: contenders[name] for name in (STATEMENT, ROUNDS, DUCKDB)}
        return interleave({**beside, peer.name: run}, rounds)


def epoch(task: tidegate.Task, tables: Mapping[str, pa.Table]) -> int:
    return int(task.run_epoch(dict(tables)).table().num_rows)


def far_apart(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same graph, with other numbers for its nodes."""
    return {
        name: pa.table({column: pc.multiply(table[column], FAR) for column in table.column_names})
        for name, table in tables.items()
    }


def query(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    return int(connection.sql(sql).to_arrow_table().num_rows)


def load(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        connection.register("given", table)
        connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")


def load_and_query(connection: duckdb.DuckDBPyConnection, workload: Workload) -> int:
    load(connection, workload.tables)
    return query(connection, f"{workload.loop.sql} ORDER BY ALL")


def counted(contenders: Mapping[str, Callable[[], int]]) -> int:
    """How many rows all of them give."""
    counts = {name: run() for name, run in contenders.items()}
    if len(set(counts.values())) != 1:
        raise AssertionError(f"the contenders disagree on the number of rows: {counts}")
    return next(iter(counts.values()))


def rows_of(workload: str, runs: Runs, names: Iterable[str]) -> list[list[str]]:
    """The table's, of those that ran."""
    table_rows = []
    for name in names:
        over = "over " if name in runs.stopped else ""
        if not over and name not in runs.seconds:
            continue
        took = f"{over}{runs.stopped[name] * 1e3:.3g}" if over else _milliseconds(runs.spread(name))
        ratio = runs.ratio(name, DUCKDB)
        table_rows.append([workload, name, took, over + spread_text(ratio) if ratio else "-"])
    return table_rows


def notes_of(workload: str, runs: Runs) -> list[str]:
    return [f"{workload}: {contender}: {why}" for contender, why in runs.left_out.items()]


def targets_of(name: str, workload: Workload, runs: Runs) -> list[Target]:
    return [
        Target(f"{name}: one statement over DuckDB", runs.ratio(STATEMENT, DUCKDB), 1.2),
        Target(f"{name}: round by round over DuckDB", runs.ratio(ROUNDS, DUCKDB), workload.rounds_bound),
        Target(
            f"{name}: nodes far apart over close together", runs.ratio(FAR_APART, ROUNDS), COUNTED_FASTER, "at least"
        ),
    ]


def peer_targets(name: str, peer: Peer, runs: Runs) -> list[Target]:
    """Over the way that the loop is planned. A peer that was stopped took at least as many times as long as is said."""
    if not runs.seconds:
        return []
    than = "at least, over" if peer.name in runs.stopped else "over"
    ratio = runs.ratio(peer.name, STATEMENT)
    return [Target(f"{name}: {peer.engine} {than} one statement", ratio, FASTER, "at least")]


def _milliseconds(spread: Spread) -> str:
    return spread_text(spread.scaled(1e3))
