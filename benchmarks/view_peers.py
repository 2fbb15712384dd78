"""A view of what can be reached beside Pathway's streaming `iterate`, change by change in turn.

Pathway runs in a process of its own, as in `loop_peers`, over a smaller graph than the case's own: it takes minutes to
find what can be reached in that one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

import tidegate

from .loop_peers import VARIABLE, answer, ask, started
from .measure import Runs

OURS = "Tidegate, a change, beside Pathway"
PATHWAY = "Pathway, a change"
_PROGRAM = Path(__file__).with_name("pathway_view.py")


@dataclass(frozen=True)
class Beside:
    """Seconds for each change, or why there are none."""

    runs: Runs = field(default_factory=lambda: Runs({}))
    missing: Sequence[str] = ()


def beside_pathway(
    client: tidegate.Client, plan: bytes, edges: pa.Table, roots: pa.Table, changes: Sequence[pa.Table]
) -> Beside:
    python = os.environ.get(VARIABLE)
    if python is None:
        return Beside(missing=[f"Pathway is left out: {VARIABLE} does not name a Python that has it"])
    seconds: dict[str, list[float]] = {OURS: [], PATHWAY: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, table in (("edges", edges), ("roots", roots)):
            csv.write_csv(table, folder / f"{name}.csv")
        process = started([python, str(_PROGRAM), str(folder)], stack)
        task = stack.enter_context(client.create_task(plan, mode="continuous", channels=1))
        rows = task.run_epoch({"edges": edges, "roots": roots}).table().num_rows
        answer(process)
        for change in changes:
            begun = time.perf_counter()
            answered = task.run_epoch({"edges": tidegate.Changes(change)}).table()
            seconds[OURS].append(time.perf_counter() - begun)
            rows += int(np.sum(answered["_weight"].to_numpy()))
            [row] = change.to_pylist()
            seconds[PATHWAY].append(float(ask(process, f"{row['a']} {row['b']} {row['_weight']}")))
        check(process, rows)
    return Beside(Runs({name: tuple(taken) for name, taken in seconds.items()}))


def check(process: subprocess.Popen[str], rows: int) -> None:
    assert process.stdin is not None
    process.stdin.close()
    peer_rows = int(answer(process))
    if peer_rows != rows:
        raise AssertionError(f"Pathway's view has {peer_rows} rows, and Tidegate's {rows}")
