"""Peers of loops that may not be there: Pathway's `iterate`, in a process of its own.

Pathway wants another pyarrow than Tidegate does, so it is asked in another environment: `TIDEGATE_BENCH_PATHWAY` is the
Python that has it. It is started, and its graph read, before anything is measured. Spark's recursive queries are not
compared: Spark 4.3 refuses UNION in them (UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE). UNION ALL with a bound on levels, made
distinct outside, would give the same rows, but a row for each path: over the grid and the random graph these are too
many to count. Over a chain there is one, and a level takes a large part of a second, or several.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

PATHWAY = "Pathway, iterate"
VARIABLE = "TIDEGATE_BENCH_PATHWAY"
_PROGRAM = Path(__file__).with_name("pathway_peer.py")


def loop_peers(
    kind: str, tables: Mapping[str, pa.Table], stack: ExitStack
) -> tuple[dict[str, Callable[[], int]], list[str]]:
    """Those that are there, each giving its number of rows, and a line for each that is not. `kind` is the loop's."""
    missing = ["Spark is left out: its recursive queries refuse UNION, and with UNION ALL make a row for every path"]
    python = os.environ.get(VARIABLE)
    if python is None:
        return {}, [*missing, f"Pathway is left out: {VARIABLE} does not name a Python that has it"]
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name, table in tables.items():
        csv.write_csv(table, folder / f"{name}.csv")
    return {PATHWAY: partial(rows, started([python, str(_PROGRAM), kind, str(folder)], stack))}, missing


def started(command: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    return process


def rows(process: subprocess.Popen[str]) -> int:
    return int(ask(process, "run"))


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return answer(process)


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("Pathway's process has ended")
    return line
