"""A server under load, in two parts, each against a server process of its own.

Load: tasks of several kinds run small epochs, whose answers are checked, beside clients that vanish, half-read and lie.
Control: every control call is timed beside clients whose epochs are long.

`make soak` has 200 tasks, 50 hostile clients and 32 long epochs, ten minutes each; the tests a few for some seconds.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import tidegate

from .control_calls import run_long_epochs, time_control_calls
from .fake_process import ServerProcess, server_process
from .hostile_clients import harass
from .load_epochs import Epochs, run_epochs

P99_OVER_P50: Final = 20.0
CONTROL_SECONDS: Final = 0.1
GROWTH: Final = 1.1
"""Memory of the last fifth of the time over that of the second fifth, where it is flat."""
_ATTENDED: Final = 3_600.0
"""Idle seconds of tasks that all have a client to delete them."""
_SETTLES: Final = 120.0
_THREADS: Final = 8
_SAMPLE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    tasks: int = 200
    hostile: int = 50
    long_epochs: int = 32
    long_seconds: float = 2.0
    seconds: float = 600.0
    idle_seconds: float = 60.0
    seed: int = 0


@dataclass(slots=True)
class Findings:
    """`wrong` is what must never be: a wrong answer, a bug, something left behind."""

    wrong: list[str] = field(default_factory=list)
    epochs: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)
    calls: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


@contextmanager
def _server(findings: Findings, idle_seconds: float) -> Iterator[tuple[ServerProcess, Path]]:
    """A server and its spill folder. It has to end as it should, and to log no bug."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "log")
        for folder_name in ("roots", "spill", "checkpoints"):
            (folder / folder_name).mkdir()
        command = (
            *("tidegate.server.cli", "serve", "--listen=127.0.0.1:0", "--no-flight", "--log-level=error"),
            *(f"--root={folder / 'roots'}", f"--spill={folder / 'spill'}", f"--idle-seconds={idle_seconds}"),
            f"--checkpoint-root={folder / 'checkpoints'}",
        )
        with log.open("w") as errors, server_process(*command, stderr=errors) as server:
            yield server, folder / "spill"
            if (code := server.end()) != 0:
                findings.wrong.append(f"the server has ended with {code}")
        findings.wrong += [f"the server has logged: {line}" for line in log.read_text().splitlines()[:20]]


def under_load(load: Load) -> Findings:
    """Small epochs beside hostile clients."""
    findings = Findings()
    with _server(findings, load.idle_seconds) as (server, spill), _processes() as processes:
        before = _settled(server, spill, findings)
        honest = processes.submit(run_epochs, server.address, load.tasks, _THREADS, load.seconds, load.seed)
        hostile = processes.submit(harass, server.address, load.hostile, load.seconds, load.seed)
        _watch(server, findings, honest, hostile)
        epochs: Epochs = honest.result()
        findings.epochs = epochs.seconds
        findings.ends, bugs = hostile.result()
        findings.wrong += [*epochs.failures, *bugs]
        after = _settled(server, spill, findings)
        findings.wrong += [
            f"{after[what]} {what} are left, and {before[what]} were there before"
            for what in before
            if after[what] > before[what] + _SPARE[what]
        ]
    return findings


def beside_long_epochs(load: Load) -> Findings:
    """Control calls beside clients whose epochs are long."""
    findings = Findings()
    with _server(findings, _ATTENDED) as (server, spill), _processes() as processes:
        file = spill.parent / "roots" / "rows.csv"
        file.write_text("x\n1\n")
        work = processes.submit(run_long_epochs, server.address, load.long_epochs, load.long_seconds, load.seconds)
        findings.calls = time_control_calls(server.address, file, work.done)
        findings.wrong += work.result()
    return findings


@contextmanager
def _processes() -> Iterator[ProcessPoolExecutor]:
    """Clients' processes: threads of this one would wait for each other."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        yield processes


def _watch(server: ServerProcess, findings: Findings, *work: Future[object]) -> None:
    while not all(work_item.done() for work_item in work):
        findings.memory.append(server.memory("VmRSS"))
        time.sleep(_SAMPLE_SECONDS)


_SPARE: Final = {"tasks": 0, "files": 0, "descriptors": 40, "threads": 40}
"""What may be more than before: idle connections and the threads of pools, which are bounded."""


def _settled(server: ServerProcess, spill: Path, findings: Findings) -> dict[str, int]:
    """What the server has once nobody uses it and idle tasks are gone."""
    until = time.monotonic() + _SETTLES
    with tidegate.connect(server.address, flight=False) as client:
        while tasks := client.tasks():
            if time.monotonic() > until:
                findings.wrong.append(f"{len(tasks)} tasks are not gone {_SETTLES:g} seconds after their last call")
                break
            time.sleep(0.5)
    process = Path("/proc", str(server.process.pid))
    return {
        "tasks": len(tasks),
        # Files that were uploaded before there is a task for them are kept for ten minutes.
        "files": sum(path.is_file() and path.parent.name != "staged" for path in spill.rglob("*")),
        "descriptors": len(list((process / "fd").iterdir())),
        "threads": len(list((process / "task").iterdir())),
    }


# ------------------------------------------------------------------------------------------------------- the report


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def fifths(memory: Sequence[int]) -> list[float]:
    """The median memory of each fifth of the time."""
    bounds = [part * len(memory) // 5 for part in range(6)]
    return [quantile(memory[begin:end] or memory, 0.5) for begin, end in itertools.pairwise(bounds)]


def growth(memory: Sequence[int]) -> float:
    """The memory of the last fifth over that of the second."""
    return fifths(memory)[-1] / fifths(memory)[1]


def _report_target(name: str, value: float, bound: float, text: str) -> bool:
    print(f"{'met   ' if value <= bound else 'MISSED'} {name}: {text}")
    return value <= bound


def report_load(findings: Findings) -> bool:
    p50, p99 = (quantile(findings.epochs, share) for share in (0.5, 0.99))
    rise, by_fifths = growth(findings.memory), ", ".join(f"{int(memory) >> 20}" for memory in fifths(findings.memory))
    print(f"       {len(findings.epochs):,} epochs; hostile acts: {dict(sorted(findings.ends.items()))}")
    small = f"p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms, {p99 / p50:.1f} times as long"
    kept = _report_target(f"p99 of small epochs at most {P99_OVER_P50:g} times p50", p99 / p50, P99_OVER_P50, small)
    text = f"MiB by fifths {by_fifths}, {rise:.2f} times the second"
    return _report_target("memory is flat", rise, GROWTH, text) and kept


def report_control(findings: Findings) -> bool:
    kept = True
    for name, seconds in sorted(findings.calls.items()):
        p50, p99 = (quantile(seconds, share) for share in (0.5, 0.99))
        text = f"p50 {1e3 * p50:.1f} ms, p99 {1e3 * p99:.1f} ms of {len(seconds)}"
        kept &= _report_target(f"p99 of {name} below {1e3 * CONTROL_SECONDS:g} ms", p99, CONTROL_SECONDS, text)
    return kept


def main() -> int:
    defaults = Load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="of each part")
    parser.add_argument("--tasks", type=int, default=defaults.tasks)
    parser.add_argument("--hostile", type=int, default=defaults.hostile)
    parser.add_argument("--long-epochs", type=int, default=defaults.long_epochs)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--part", choices=("load", "control"), help="both, unless given")
    options = vars(parser.parse_args())
    part = options.pop("part")
    load = Load(**options)
    parts: dict[str, tuple[Callable[[Load], Findings], Callable[[Findings], bool]]] = {
        "load": (under_load, report_load),
        "control": (beside_long_epochs, report_control),
    }
    kept = True
    for name, (run, report) in parts.items():
        if part in (None, name):
            print(f"{name}: {load}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before", flush=True)
            findings = run(load)
            print(f"       load average {os.getloadavg()[0]:.1f} after")
            for line in findings.wrong[:50]:
                print(f"WRONG  {line}", flush=True)
            kept &= report(findings) and not findings.wrong
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
