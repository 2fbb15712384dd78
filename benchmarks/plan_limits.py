"""The cost of the largest plans: `python -m benchmarks.plan_limits [--mode MODE] [--channels N] [KIND ...]`.

Each kind of plan (`benchmarks.plan_kinds`) is as large as the limits of plans allow. A process of its own makes a task
of it, and runs an epoch of one row for each source. The table has the processor time of the task and of the epoch, and
the growth of the peak of memory. A line ends with the reason where the service refuses the plan or fails the epoch.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import tidegate
from tidegate.planner.decode.encoding import limits
from tidegate.planner.decode.encoding.counting import Counted, count_json
from tidegate.proto.errors import PlanError

from .plan_growth import one_row
from .plan_kinds import KINDS
from .plan_parts import FILE, STATIC

MOST_SECONDS: Final = 60
_MOST_REFUSED: Final = 10.0
_MOST_BYTES: Final = 8 << 30
_SMALL: Final = 40
_BOUND_ROW: Final = pa.table({"c0": [1]}, schema=pa.schema([pa.field("c0", pa.int64(), nullable=False)]))


def encoded(kind: str, size: int) -> str:
    return json.dumps(KINDS[kind](size).plan(), check_circular=False, separators=(",", ":"))


def counts(kind: str, size: int) -> tuple[int, ...]:
    """How much a plan has of what has a limit and grows evenly: relations, expressions too, literals, bytes."""
    counted, text = Counted(), encoded(kind, size)
    count_json(json.loads(text), counted)
    return counted.relations, counted.nodes, counted.literals, len(text)


def largest(kind: str) -> int:
    """The largest size within the limits that are counted before a plan is decoded, within a tenth."""
    bounds = (limit.most for limit in (limits.RELATIONS, limits.NODES, limits.LITERALS, limits.BYTES))
    grown = zip(bounds, counts(kind, _SMALL), counts(kind, 2 * _SMALL), strict=True)
    sizes = (_SMALL + (bound - few) * _SMALL // (more - few) for bound, few, more in grown if more > few)
    return _greatest(lambda size: _fits(kind, size), min((limits.PARTS.most, *sizes)))


def _greatest(fits: Callable[[int], bool], most: int) -> int:
    """The greatest size up to `most` that fits, within a tenth. Small sizes are cheap to try, and 1 fits."""
    if fits(most):
        return most
    least = most // 2
    while least > 1 and not fits(least):
        least, most = least // 2, least
    while most - least > max(1, least // 10):
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return max(1, least)


def _fits(kind: str, size: int) -> bool:
    try:
        counts(kind, size)
    except PlanError:
        return False
    return True


def measure(kind: str, size: int, options: tidegate.Options) -> dict[str, Any]:
    """The seconds of a task of the plan and of an epoch, and the growth of the peak of memory in MiB."""
    text = encoded(kind, size)
    tables = {STATIC: _BOUND_ROW} if f'"{STATIC}"' in text else {}
    measured: dict[str, Any] = {}
    pq.write_table(_BOUND_ROW, FILE)
    with tidegate.local(roots=[str(FILE.parent)]) as client:
        before, start = _peak(), time.process_time()
        try:
            with client.create_task(text, tables=tables, **options) as task:
                measured["task"] = time.process_time() - start
                rows = {source.name: one_row(source.schema) for source in task.info().sources if not source.static}
                start = time.process_time()
                task.run_epoch(rows)
                measured["epoch"] = time.process_time() - start
        except tidegate.TidegateError as error:
            measured["reason"] = error.reason
            measured["refused"] = time.process_time() - start
        measured["peak"] = _peak() - before
    return measured


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))


def beside(kind: str, size: int, options: tidegate.Options) -> dict[str, Any]:
    """What a process of its own measures."""
    command = [sys.executable, "-m", __spec__.name, kind, "--size", str(size), "--options", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_bounded)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"reason": f"ended with {done.returncode}: {last[:100]}", "peak": float("nan")}
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def greatest_accepted(kind: str, options: tidegate.Options) -> tuple[int, dict[str, Any]]:
    """The size of the largest plan that is not refused for a limit, and its measures. The decoder has limits, too."""
    measured: dict[int, dict[str, Any]] = {}

    def is_accepted(size: int) -> bool:
        measured[size] = beside(kind, size, options)
        return measured[size].get("reason") != limits.REASON or measured[size]["refused"] >= _MOST_REFUSED

    size = _greatest(is_accepted, largest(kind))
    return size, measured.get(size) or beside(kind, size, options)


def row(kind: str, size: int, measured: dict[str, Any]) -> str:
    task, epoch = (f"{measured[part]:8.2f} s" if part in measured else " " * 10 for part in ("task", "epoch"))
    after = f" after {measured['refused']:.2f} s" if "refused" in measured else ""
    return f"{kind:46} {size:8,} {task} {epoch} {measured['peak']:7.0f} MiB  {measured.get('reason', '')}{after}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=["per_epoch", "continuous"], default="per_epoch")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--options", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="default: all")
    chosen = parser.parse_args(arguments)
    sys.setrecursionlimit(1_000_000)
    if chosen.size:
        print(json.dumps(measure(chosen.kinds[0], chosen.size, chosen.options)))
        return
    options: tidegate.Options = {"mode": chosen.mode, "channels": chosen.channels}
    print(f"{'plan':46} {'size':>8} {'task':>10} {'epoch':>10} {'memory':>11}")
    for kind in chosen.kinds or KINDS:
        print(row(kind, *greatest_accepted(kind, options)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
