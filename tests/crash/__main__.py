"""Kills servers at named points and at random instants: `python -m tests.crash --seeds 500`. With `--each`, one run for
each point waits until the server comes there. With `--seconds`, no run begins later than that. With `--record`, the
result is written to a file: `python -m benchmarks crashes` shows that of `benchmarks/crashes.json`.

Prints what differs from an undisturbed run, how often each point was come to, and those that never were.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .killed_runs import Run, coming_to, killed
from .lives import Forking
from .points import POINTS
from .record import Record, version_and_commit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="the number of runs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after so long")
    parser.add_argument("--each", action="store_true", help="one run for each point instead, aimed at it")
    parser.add_argument("--only", default="", help="with --each: the points whose names have this text")
    parser.add_argument("--record", type=Path, help="the file to write the result to")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    runs = [Run.of(seed) for seed in seeds]
    if options.each:
        runs = [coming_to(point, options.first) for point in POINTS if options.only in point.name]
    came: Counter[str] = Counter()
    failed, done, began = [], 0, time.monotonic()
    with Forking() as forking:
        for run in runs:
            if time.monotonic() - began > options.seconds:
                break
            done += 1
            seed = run.seed
            folder = Path(tempfile.mkdtemp(prefix="tidegate-crash-"))
            outcome = killed(run, forking, folder / "run")
            came.update(outcome.died)
            for wrong in outcome.wrong:
                print(f"seed {seed} ({run.case.name}; {', '.join(outcome.died)}): {wrong}", flush=True)
            if outcome.wrong:
                failed.append(seed)
            shutil.rmtree(folder, ignore_errors=True)
    for name, count in sorted(came.items()):
        print(f"{count:5}  {name}")
    never = [point.name for point in POINTS if options.only in point.name and point.name not in came]
    print(f"never: {', '.join(never) or 'none'}")
    tidegate_version, commit = version_and_commit()
    record = Record(
        version=tidegate_version,
        commit=commit,
        first_seed=options.first,
        runs=done,
        seconds=round(time.monotonic() - began, 1),
        points=len(POINTS) + 1,
        differ=failed,
        crashes=dict(sorted(came.items())),
    )
    print(f"of {len(runs)}: {record}")
    if options.record is not None:
        record.write(options.record)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
