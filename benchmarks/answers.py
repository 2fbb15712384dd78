"""Case `answers`: the plans of all four producers are right, at the scale that is measured.

Right is what the conformance tests say it is: DuckDB's answer to the SQL beside the plan, decimals exactly, floats to
1e-9, in the order that the SQL asks for. Some plans cannot mean their SQL, and are held to what they do say: those that
lost a reference in their producer, and those into which it wrote a bound of the data that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

import tidegate
from tests.conformance import ibis
from tests.conformance.tpch import differences

from . import tpch
from .measure import Spread
from .progress import progress
from .report import Report, Target
from .services import embedded
from .settings import Settings

# DuckDB wrote the largest o_custkey of its own, smaller data into these plans as a filter.
BOUNDED = frozenset(f"duckdb/q{query:02}" for query in (3, 5, 7, 8, 10, 18))
BOUND = 7_499


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = [
        plan
        for producer in tpch.PRODUCERS
        for plan in tpch.plans(settings.plans, producer)
        if plan.query in settings.queries
    ]
    with (
        embedded() as client,
        tpch.duckdb_sql(files, settings.threads) as whole,
        tpch.duckdb_sql(files, settings.threads, {"orders": f"o_custkey <= {BOUND}"}) as bounded,
    ):
        wrong = {
            plan.name: check(client, plan, files, bounded if plan.name in BOUNDED else whole)
            for plan in progress(chosen, "answers")
        }
    right = len(chosen) - sum(map(bool, wrong.values()))
    return Report(
        case="answers",
        title=f"TPC-H scale {settings.scale:g}: answers to the plans of four producers",
        header=["producer", "plans", "right"],
        rows=[_row(producer, wrong) for producer in tpch.PRODUCERS],
        targets=[Target("right answers", Spread(right, right, right), len(chosen), "at least")],
        notes=[f"{name}: {problem}" for name, problem in wrong.items() if problem],
        figures={"wrong": wrong},
    )


def check(
    client: tidegate.Client, plan: tpch.Plan, files: Mapping[str, Path], oracle: Callable[[str], pa.Table]
) -> str:
    """What is wrong with the plan's answer; nothing when it is right."""
    lost = plan.producer == "ibis" and plan.path.stem in ibis.LOST
    sql = ibis.as_written(plan.path.stem, plan.sql) if lost else plan.sql
    try:
        with client.create_task(plan.path) as task:
            answer = task.run_epoch({name: files[name.lower()] for name in task.sources}).table()
    except tidegate.TidegateError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    expected = oracle(sql)
    return "; ".join(differences(answer, expected, sql, averages(answer, expected)))


def averages(answer: pa.Table, expected: pa.Table) -> frozenset[int]:
    """The columns where the plan has a decimal of its own scale and DuckDB a float."""
    types = zip(answer.schema.types, expected.schema.types, strict=False)
    return frozenset(
        at for at, (ours, theirs) in enumerate(types) if pa.types.is_decimal(ours) and pa.types.is_floating(theirs)
    )


def _row(producer: str, wrong: Mapping[str, str]) -> list[str]:
    mine = [problem for name, problem in wrong.items() if name.startswith(f"{producer}/")]
    return [producer, str(len(mine)), str(mine.count(""))]
