"""Case `tpch`: the 22 plans that DataFusion wrote, beside DuckDB and DataFusion on the SQL, and Acero on the plans.

Every contender reads the same Parquet files in each run and hands back an Arrow table; Tidegate runs each plan as a
task that lives on, one epoch a run, in `relaxed`, with as many threads as DuckDB and DataFusion have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import tidegate

from . import tpch
from .measure import Runs, Spread, interleave, summed
from .progress import progress
from .report import Report, Target
from .services import embedded, served
from .settings import Settings

EMBEDDED, GRPC, DUCKDB, DATAFUSION, ACERO = "Tidegate embedded", "Tidegate gRPC", "DuckDB", "DataFusion", "Acero"
CONTENDERS = (EMBEDDED, GRPC, DUCKDB, DATAFUSION, ACERO)


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = [plan for plan in tpch.plans(settings.plans, "datafusion") if plan.query in settings.queries]
    runs: dict[str, Runs] = {}
    with ExitStack() as stack:
        clients = {
            EMBEDDED: stack.enter_context(embedded()),
            GRPC: stack.enter_context(served(settings.data)),
        }
        duckdb_sql = stack.enter_context(tpch.duckdb_sql(files, settings.threads))
        datafusion_sql = tpch.datafusion_sql(files, settings.threads)
        acero_plan = tpch.acero_plan(files)
        for plan in progress(chosen, "tpch"):
            with ExitStack() as tasks:
                contenders: dict[str, Callable[[], object]] = {
                    name: epoch_runner(tasks, client, plan, files, determinism="relaxed")
                    for name, client in clients.items()
                }
                contenders[DUCKDB] = partial(duckdb_sql, plan.sql)
                contenders[DATAFUSION] = partial(datafusion_sql, plan.sql)
                contenders[ACERO] = partial(acero_plan, plan.path.read_bytes())
                runs[f"q{plan.query:02}"] = interleave(contenders, settings.rounds)
    return report(settings, runs)


def epoch_runner(
    tasks: ExitStack, client: tidegate.Client, plan: tpch.Plan, files: Mapping[str, Path], **options: Any
) -> Callable[[], pa.Table]:
    """One run is one epoch of a task made at the first run, over all files of the tables that the plan reads."""
    created: list[tidegate.Task] = []

    def epoch() -> pa.Table:
        if not created:
            created.append(tasks.enter_context(client.create_task(plan.path, **options)))
        [task] = created
        return task.run_epoch({name: files[name.lower()] for name in task.sources}).table()

    return epoch


def report(settings: Settings, runs: Mapping[str, Runs]) -> Report:
    total = summed(runs, CONTENDERS)
    rows = [_row(name, timings) for name, timings in runs.items()]
    rows.append(_row("total", total))
    notes = [f"{name}: left out of the total, {why}" for name, why in total.left_out.items()]
    for name in CONTENDERS:
        reasons = {timings.left_out[name] for timings in runs.values() if name in timings.left_out}
        notes += [f"{name}: {reason}" for reason in sorted(reasons)[:3]]
    return Report(
        case="tpch",
        title=f"TPC-H scale {settings.scale:g}, {settings.threads} threads: median ms of {settings.rounds} runs",
        header=["query", *CONTENDERS, "embedded / DuckDB", "gRPC / DuckDB", "embedded / DataFusion"],
        rows=rows,
        targets=[
            Target("total, embedded over DuckDB", total.ratio(EMBEDDED, DUCKDB), 1.25),
            Target("total, gRPC over DuckDB", total.ratio(GRPC, DUCKDB), 1.25),
            Target("total, embedded over DataFusion", total.ratio(EMBEDDED, DATAFUSION), 1.0),
        ],
        notes=notes,
        figures={name: {"seconds": timings.seconds, "left_out": timings.left_out} for name, timings in runs.items()},
    )


def _row(name: str, runs: Runs) -> list[str]:
    times = [f"{runs.spread(name).median * 1e3:.0f}" if name in runs.seconds else "-" for name in CONTENDERS]
    ratios = [runs.ratio(EMBEDDED, DUCKDB), runs.ratio(GRPC, DUCKDB), runs.ratio(EMBEDDED, DATAFUSION)]
    return [name, *times, *map(_ratio_text, ratios)]


def _ratio_text(ratio: Spread | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.2f}"
