"""Case `channels`: TPC-H in strict tasks with a channel a core, beside one channel, and beside relaxed on every core.

What strictness costs on all cores, and what channels are worth to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from . import tpch
from .measure import Runs, Spread, interleave, summed
from .progress import progress
from .report import Report, Target, spread_text
from .services import embedded
from .settings import Settings
from .tpch_queries import epoch_runner

MANY, ONE, RELAXED = "strict, a channel a core", "strict, one channel", "relaxed"
CONTENDERS = (MANY, ONE, RELAXED)
SLOWEST = 1.1
AGAIN = 7
"""So many times the rounds for a query that seems slower than that: a few runs of 70 ms say little."""


def run(settings: Settings) -> Report:
    files = tpch.data(settings.data, settings.scale)
    chosen = [plan for plan in tpch.plans(settings.plans, "datafusion") if plan.query in settings.queries]
    options: Mapping[str, dict[str, Any]] = {
        MANY: {"channels": max(2, settings.threads)},
        ONE: {"channels": 1},
        RELAXED: {"determinism": "relaxed"},
    }
    runs: dict[str, Runs] = {}
    longer: dict[str, Runs] = {}
    with embedded() as client:
        for plan in progress(chosen, "channels"):
            with ExitStack() as tasks:
                contenders: dict[str, Callable[[], object]] = {
                    name: epoch_runner(tasks, client, plan, files, **how) for name, how in options.items()
                }
                name = f"q{plan.query:02}"
                runs[name] = interleave(contenders, settings.rounds)
                ratio = runs[name].ratio(MANY, ONE)
                if ratio is not None and ratio.median > SLOWEST:
                    two = {name: contenders[name] for name in (MANY, ONE)}
                    longer[name] = interleave(two, settings.rounds * AGAIN)
    return report(settings, runs, longer)


def report(settings: Settings, runs: Mapping[str, Runs], longer: Mapping[str, Runs]) -> Report:
    """`longer` has the queries that were measured again, in more rounds."""
    total = summed(runs, CONTENDERS)
    slowest = [ratio for timings in {**runs, **longer}.values() if (ratio := timings.ratio(MANY, ONE)) is not None]
    again = [(f"{name}, {settings.rounds * AGAIN} rounds", timings) for name, timings in longer.items()]
    return Report(
        case="channels",
        title=f"TPC-H scale {settings.scale:g} in strict tasks: median ms of {settings.rounds} runs",
        header=["query", *CONTENDERS, "over relaxed", "over one channel"],
        rows=[_row(name, timings) for name, timings in (*runs.items(), *again, ("total", total))],
        targets=[
            Target("total over relaxed", total.ratio(MANY, RELAXED), 1.25),
            Target("total over one channel", total.ratio(MANY, ONE), 0.8),
            Target("the slowest query over one channel", max(slowest, key=lambda ratio: ratio.median), SLOWEST),
        ],
        notes=[f"{name}: {why}" for timings in runs.values() for name, why in timings.left_out.items()],
        figures={name: {"seconds": timings.seconds} for name, timings in runs.items()},
    )


def _row(name: str, runs: Runs) -> list[str]:
    times = [f"{runs.spread(name).median * 1e3:.0f}" if name in runs.seconds else "-" for name in CONTENDERS]
    return [name, *times, _text(runs.ratio(MANY, RELAXED)), _text(runs.ratio(MANY, ONE))]


def _text(ratio: Spread | None) -> str:
    return "-" if ratio is None else spread_text(ratio)
