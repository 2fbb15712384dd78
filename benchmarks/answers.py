"""Case `answers`: the plans of all four producers are right, at the scale that is measured.

Right is what the conformance tests say it is: DuckDB's answer to the SQL beside the plan, decimals exactly, floats to
1e-9, in the order that the SQL asks for; and for the plans that lost a reference in their producer, what they do say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tidegate
from tests.conformance import ibis
from tests.conformance.tpch import Oracles, differences, quotients

from . import tpch
from .measure import Spread
from .progress import progress
from .report import Report, Target
from .services import embedded
from .settings import Settings


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = [
        plan
        for producer in tpch.PRODUCERS
        for plan in tpch.plans(settings.plans, producer)
        if plan.query in settings.queries
    ]
    oracles = Oracles(files)
    with embedded() as client:
        wrong = {plan.name: check(client, plan, files, oracles) for plan in progress(chosen, "answers")}
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


def check(client: tidegate.Client, plan: tpch.Plan, files: Mapping[str, Path], oracles: Oracles) -> str:
    """What is wrong with the plan's answer; nothing when it is right."""
    lost = plan.producer == "ibis" and plan.path.stem in ibis.LOST
    sql = ibis.as_written(plan.path.stem, plan.sql) if lost else plan.sql
    expected = oracles.answers(sql)
    try:
        with client.create_task(plan.path) as task:
            answer = task.run_epoch({name: files[name.lower()] for name in task.sources}).table()
    except tidegate.TidegateError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "; ".join(differences(answer, expected["DuckDB"], sql, quotients(expected)))


def _row(producer: str, wrong: Mapping[str, str]) -> list[str]:
    mine = [problem for name, problem in wrong.items() if name.startswith(f"{producer}/")]
    return [producer, str(len(mine)), str(mine.count(""))]
