"""Case `graphs`: TPC-H 6 and 12 as graphs over Parquet, beside DuckDB; and what a user node costs a batch.

A graph is a task that lives on, one epoch a run, in `relaxed`, with as many threads as DuckDB has. The user node hands
its batches on: it is in a chain of such nodes, beside the same chain of half the length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa

import tidegate
from tidegate.proto.values import Determinism

from . import tpch
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import embedded
from .settings import Settings

OURS, STRICT, DUCKDB = "Tidegate, relaxed", "Tidegate, strict", "DuckDB"
LONG, SHORT = "16 nodes", "8 nodes"
_QUERIES = (6, 12)
_TABLES = ("lineitem", "orders")
_STRIDE = 1_024


class PassOn:
    """Hands its rows on."""

    def execute(self, batches: Sequence[pa.RecordBatch], *_: object) -> Sequence[pa.RecordBatch]:
        return batches

    def done(self, *_: object) -> None:
        return None


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    rows: list[list[str]] = []
    targets: list[Target] = []
    seconds: dict[str, object] = {}
    notes: list[str] = []
    with ExitStack() as stack:
        client = stack.enter_context(tidegate.local(roots=[files["lineitem"].parent]))
        duckdb_sql = stack.enter_context(tpch.duckdb_sql(files, settings.threads))
        for query in _QUERIES:
            sql = (settings.plans / "sql" / f"q{query:02}.sql").read_text()
            graph = graph_of(sql, files)
            contenders: dict[str, Callable[[], pa.Table]] = {DUCKDB: partial(duckdb_sql, sql)}
            for name, determinism in ((OURS, Determinism.RELAXED), (STRICT, Determinism.STRICT)):
                task = stack.enter_context(client.create_task(graph, determinism=determinism))
                contenders[name] = partial(answer, task)
            same(contenders)
            runs = interleave(contenders, settings.rounds)
            notes += [f"q{query:02}, {name}: {why}" for name, why in runs.left_out.items()]
            rows += [_row(f"q{query:02} {name}", runs, name) for name in runs.seconds]
            targets.append(Target(f"TPC-H {query} as a graph, over DuckDB", runs.ratio(OURS, DUCKDB), 1.5))
            seconds[f"q{query:02}"] = runs.seconds
    cost = pass_on(settings)
    rows.append(["pass-through node, microseconds a batch", spread_text(cost), "-"])
    targets.append(Target("microseconds a batch that a user node costs", cost, 10.0))
    return Report(
        case="graphs",
        title=f"Task graphs: TPC-H scale {settings.scale:g}, {settings.threads} threads; nodes of one's own",
        header=["", "ms", "over DuckDB"],
        rows=rows,
        targets=targets,
        notes=notes,
        figures={"seconds": seconds},
    )


def graph_of(sql: str, files: Mapping[str, Path]) -> tidegate.TaskGraph:
    graph = tidegate.TaskGraph()
    streams = {name: graph.read_parquet(files[name], name=name) for name in _TABLES if name in sql}
    graph.collect(graph.sql("query", sql, streams))
    return graph


def answer(task: tidegate.Task) -> pa.Table:
    return task.run_epoch({}).table()


def same(contenders: dict[str, Callable[[], pa.Table]]) -> None:
    expected, *others = ([tuple(row.values()) for row in contender().to_pylist()] for contender in contenders.values())
    if any(other != expected for other in others):
        raise ValueError("the answers differ")


def pass_on(settings: Settings) -> Spread:
    """Microseconds that a node adds for each of its batches."""
    rows = pa.table({"v": range(settings.graph_batches * _STRIDE)})
    batches = rows.to_batches(_STRIDE)
    with ExitStack() as stack:
        client = stack.enter_context(embedded())
        contenders: dict[str, Callable[[], object]] = {}
        for name, nodes in ((LONG, 16), (SHORT, 8)):
            graph = tidegate.TaskGraph()
            stream = graph.read_iterable(batches, rows.schema, stride=_STRIDE)
            for node in range(nodes):
                stream = graph.node(f"node{node}", PassOn, stream)
            graph.collect(graph.count("count", stream))
            task = stack.enter_context(client.create_task(graph, determinism="relaxed"))
            contenders[name] = partial(answer, task)
        runs = interleave(contenders, settings.rounds)
    added = (long - short for long, short in zip(runs.seconds[LONG], runs.seconds[SHORT], strict=True))
    return Spread.of(tuple(elapsed * 1e6 / (8 * settings.graph_batches) for elapsed in added))


def _row(name: str, runs: Runs, contender: str) -> list[str]:
    ratio = runs.ratio(contender, DUCKDB)
    return [name, spread_text(runs.spread(contender).scaled(1e3)), "-" if ratio is None else spread_text(ratio)]
