"""`python -m benchmarks [CASE ...]`: tables to standard output, figures to a JSON file."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from . import (
    answers,
    changes,
    channels,
    checks,
    continuous_loops,
    continuous_windows,
    crashes,
    durable,
    durable_tasks,
    exchange,
    fair_shares,
    first_load,
    graph_pagerank,
    graphs,
    loader,
    lookup,
    loops,
    on_spark,
    pagerank,
    planning,
    profit,
    small_epochs,
    sorted_inputs,
    spark_feed,
    spark_source,
    static_join,
    streaming_aggregate,
    throughput,
    tpch_queries,
    training,
    windows,
)
from .limits import CASE_SECONDS, within
from .report import Report, environment, to_json
from .services import end_all
from .settings import TOP, Settings

CASES: dict[str, Callable[[Settings], Report]] = {
    "tpch": tpch_queries.run,
    "planning": planning.run,
    "channels": channels.run,
    "answers": answers.run,
    "epochs": small_epochs.run,
    "shares": fair_shares.run,
    "durable": durable.run,
    "durable-tasks": durable_tasks.run,
    "crashes": crashes.run,
    "throughput": throughput.run,
    "checks": checks.run,
    "loader": loader.run,
    "training": training.run,
    "training-tokens": training.run_tokens,
    "exchange": exchange.run,
    "lookup": lookup.run,
    "static-join": static_join.run,
    "aggregate": streaming_aggregate.run,
    "merge": sorted_inputs.run,
    "windows": windows.run,
    "continuous-windows": continuous_windows.run,
    "profit": profit.run,
    "changes": changes.run,
    "loops": loops.run,
    "pagerank": pagerank.run,
    "graph-pagerank": graph_pagerank.run,
    "graphs": graphs.run,
    "continuous-loops": continuous_loops.run,
    "first-load": first_load.run,
    "spark-feed": spark_feed.run,
    "spark": on_spark.run,
    "spark-source": spark_source.run,
}
ALL = "all"


def main() -> int:
    arguments = parser().parse_args()
    settings = Settings(scale=arguments.scale, rounds=arguments.rounds)
    print("# Tidegate beside its peers\n")
    print(", ".join(f"{name} {value}" for name, value in environment().items()) + "\n")
    reports: list[Report] = []
    failed: list[str] = []
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    for name in CASES if ALL in arguments.cases else arguments.cases:
        start = time.perf_counter()
        try:
            reports.append(within(arguments.case_seconds, partial(CASES[name], settings)))
        except Exception:  # noqa: BLE001 - told at once and by the exit code; the other cases go on
            failed.append(name)
            end_all()
            print(f"## Case {name} failed\n\n```\n{traceback.format_exc()}```\n", flush=True)
            continue
        print(reports[-1].markdown(), flush=True)
        print(f"case {name} took {time.perf_counter() - start:.0f} s", file=sys.stderr)
        arguments.json.write_text(to_json(reports))
    print(f"figures: {arguments.json}" if reports else "no figures", file=sys.stderr)
    missed = [target.text for report in reports for target in report.targets if not target.reached]
    return 1 if failed or (missed and arguments.fail_on_missed) else 0


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Tidegate beside its peers, in one run."
    )
    defaults = Settings()
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    cases = f"one of {', '.join(CASES)}, or {ALL} (the default)"
    argument_parser.add_argument("cases", nargs="*", default=[ALL], type=_case, metavar="CASE", help=cases)
    argument_parser.add_argument("--scale", type=float, default=defaults.scale, help="TPC-H scale factor (%(default)s)")
    argument_parser.add_argument(
        "--rounds", type=int, default=defaults.rounds, help="runs of each contender (%(default)s)"
    )
    argument_parser.add_argument("--json", type=Path, default=TOP / "benchmarks" / "results" / f"{now}.json")
    argument_parser.add_argument(
        "--case-seconds", type=float, default=CASE_SECONDS, help="then a case is given up (%(default)s)"
    )
    argument_parser.add_argument("--fail-on-missed", action="store_true", help="exit code 1 when a target is missed")
    return argument_parser


def _case(name: str) -> str:
    """A case's name or `ALL`; argparse's own choices would refuse the list that stands for none."""
    if name not in (ALL, *CASES):
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join((*CASES, ALL))}")
    return name


if __name__ == "__main__":
    sys.exit(main())
