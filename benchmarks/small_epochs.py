"""Case `epochs`: what an epoch costs when there is almost nothing in it.

One inline split of 1,000 rows, filter + project + group by: a task that lives on, against a new task per split,
against DuckDB asked afresh (the batch registered, the query planned and run, the batch taken off again), and against
the least that it could be: a prepared statement called by hand, in this process and behind a bare gRPC method.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

import duckdb
import grpc
import numpy as np
import pyarrow as pa

import tidegate

from . import plans
from .hand_written import METHOD, PreparedQuery, from_bytes, to_bytes
from .measure import Runs, Spread, interleave
from .report import Report, Target, spread_text
from .services import embedded, peer, served
from .settings import Settings

ROWS = 1_000
SQL = "SELECT k, sum(v * 2), count(*) FROM rows WHERE v > 100 GROUP BY k"
STATEMENT = "Tidegate embedded, a statement in place of kernels"
DUCKDB = "DuckDB, a fresh query"
BY_HAND = {"embedded": "by hand, a prepared statement", "gRPC": "by hand, the same behind gRPC"}


def run(settings: Settings) -> Report:
    split = rows()
    many, few = settings.small_epochs, max(1, settings.small_epochs // 20)
    repeats: dict[str, int] = {}
    contenders: dict[str, Callable[[], object]] = {}

    def add(name: str, times: int, once: Callable[[], object]) -> None:
        repeats[name] = times
        contenders[name] = lambda: [once() for _ in range(times)]

    with ExitStack() as stack:
        for where, client in {
            "embedded": stack.enter_context(embedded()),
            "gRPC": stack.enter_context(served(settings.data)),
        }.items():
            task = stack.enter_context(client.create_task(plans.filter_project_group()))
            add(f"Tidegate {where}, reused task", many, partial(next_epoch, task, split))
            add(f"Tidegate {where}, new task", few, partial(new_task, client, split))
            if where == "embedded":
                statement = stack.enter_context(client.create_task(plans.filter_project_group(has_kernels=False)))
                add(STATEMENT, many, partial(next_epoch, statement, split))
        connection = stack.enter_context(duckdb.connect(config={"threads": settings.threads}))
        add(DUCKDB, many, partial(fresh_query, connection, split))
        prepared = stack.enter_context(closing(PreparedQuery(SQL, split)))
        add(BY_HAND["embedded"], many, partial(prepared.run, split))
        channel = stack.enter_context(grpc.insecure_channel(stack.enter_context(peer("hand_written"))))
        add(BY_HAND["gRPC"], many, partial(ask, channel.unary_unary(METHOD, None, None), split))
        runs = interleave(contenders, settings.rounds)
    return report(settings, each_epoch(runs, repeats))


def rows() -> pa.Table:
    """Always the same 1,000 rows."""
    random = np.random.default_rng(7)
    return pa.table({"k": random.integers(0, 50, ROWS), "v": random.integers(0, 1_000, ROWS)})


def next_epoch(task: tidegate.Task, split: pa.Table) -> pa.Table:
    return task.run_epoch({"rows": split}).table()


def new_task(client: tidegate.Client, split: pa.Table) -> pa.Table:
    with client.create_task(plans.filter_project_group()) as task:
        return task.run_epoch({"rows": split}).table()


def fresh_query(connection: duckdb.DuckDBPyConnection, split: pa.Table) -> pa.Table:
    connection.register("rows", split)
    answer = connection.sql(SQL).to_arrow_table()
    connection.unregister("rows")
    return answer


def ask(method: Callable[[bytes], bytes], split: pa.Table) -> pa.Table:
    return from_bytes(method(to_bytes(split)))


def each_epoch(runs: Runs, repeats: dict[str, int]) -> Runs:
    """Seconds of one epoch, from those of many."""
    seconds = {name: tuple(elapsed / repeats[name] for elapsed in values) for name, values in runs.seconds.items()}
    return Runs(seconds, runs.left_out)


def report(settings: Settings, runs: Runs) -> Report:
    def milliseconds(name: str) -> Spread | None:
        return runs.spread(name).scaled(1e3) if name in runs.seconds else None

    targets = []
    for where, bound in (("embedded", 1.0), ("gRPC", 2.0)):
        reused, new = f"Tidegate {where}, reused task", f"Tidegate {where}, new task"
        targets.append(Target(f"{where}: ms per epoch of a reused task", milliseconds(reused), bound))
        targets.append(Target(f"{where}: new task over reused task", runs.ratio(new, reused), 10.0, "at least"))
    reused = "Tidegate embedded, reused task"
    targets.append(Target("embedded: a statement over kernels", runs.ratio(STATEMENT, reused), 1.1, "at least"))
    return Report(
        case="epochs",
        title=f"Small epochs: one inline split of {ROWS} rows, {settings.threads} threads",
        header=["", "ms per epoch", "over DuckDB", "over by hand"],
        rows=[
            [name, spread_text(runs.spread(name).scaled(1e3)), _ratio(runs, name, DUCKDB), _ratio(runs, name, by_hand)]
            for name in runs.seconds
            for by_hand in [BY_HAND["gRPC" if "gRPC" in name else "embedded"]]
        ],
        targets=targets,
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )


def _ratio(runs: Runs, name: str, to: str) -> str:
    ratio = runs.ratio(name, to)
    return "-" if ratio is None else spread_text(ratio)
