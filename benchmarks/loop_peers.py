"""Peers of loops that may not be there: Pathway's `iterate` and Spark's recursive queries, in processes of their own.

Both want other packages than Tidegate does, so they are asked in other environments: `TIDEGATE_BENCH_PATHWAY` and
`TIDEGATE_BENCH_SPARK` are the Pythons that have them. They are started, and their tables read, before anything is
measured. One that is not done in time is ended: it took longer than that.

Spark 4.3 refuses UNION in recursive queries (UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE). UNION ALL, made distinct outside,
would give the same rows, but makes a row for every path: over the grid and the random graph these are too many to
count. So it is asked for a chain, which has one, and for a short one: it stops at 100 levels unless told otherwise, and
each takes a large part of a second.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from .measure import StoppedError

VARIABLE = "TIDEGATE_BENCH_PATHWAY"
SECONDS = 60.0
"""That a peer has for a loop."""


@dataclass(frozen=True)
class Peer:
    """`program`, in this folder, is run by the Python that `variable` names."""

    name: str
    engine: str
    variable: str
    program: str


PATHWAY = Peer("Pathway, iterate", "Pathway", VARIABLE, "pathway_peer.py")
SPARK = Peer("Spark, recursive CTE with UNION ALL", "Spark", "TIDEGATE_BENCH_SPARK", "spark_peer.py")


def missing(*peers: Peer) -> list[str]:
    """A line for each that is not there."""
    lacking = [peer for peer in peers if peer.variable not in os.environ]
    return [f"{peer.engine} is left out: {peer.variable} does not name a Python that has it" for peer in lacking]


def loop_peer(
    peer: Peer, kind: str, tables: Mapping[str, pa.Table], rows: int, stack: ExitStack
) -> Callable[[], None] | None:
    """A loop of this kind over these tables, which must give so many rows; None where the peer is not there."""
    if missing(peer):
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name, table in tables.items():
        csv.write_csv(table, folder / f"{name}.csv")
    process = started(command(peer, kind, str(folder)), stack)
    answer(process)
    return partial(run, process, rows, SECONDS)


def command(peer: Peer, *arguments: str) -> list[str]:
    """The command that starts a peer that is there."""
    return [os.environ[peer.variable], str(Path(__file__).with_name(peer.program)), *arguments]


def run(process: subprocess.Popen[str], rows: int, seconds: float) -> None:
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(seconds, end)
    clock.start()
    try:
        peer_rows = int(ask(process, "run"))
    except (RuntimeError, BrokenPipeError):
        if late.is_set():
            raise StoppedError(seconds) from None
        raise
    finally:
        clock.cancel()
    if peer_rows != rows:
        raise AssertionError(f"a peer has {peer_rows} rows, and Tidegate {rows}")


def started(command: list[str], stack: ExitStack, folder: Path | None = None) -> subprocess.Popen[str]:
    process = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder),
    )
    stack.callback(process.kill)
    return process


def ask(process: subprocess.Popen[str], line: str) -> str:
    say(process, line)
    return answer(process)


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a peer's process has ended")
    return line
