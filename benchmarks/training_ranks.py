"""Ranks of a training job, each a process that reads its share of an epoch from a server.

`python -m benchmarks.training_ranks ADDRESS FOLDER RANK RANKS` reads an epoch for each line on standard input, and
answers with the number of its rows.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import tidegate

from .loop_peers import answer, say, started
from .settings import TOP
from .training_rows import WIDE, check, loader

TWO = 2
ONE_RANK, TWO_RANKS = "Tidegate gRPC, one rank", "Tidegate gRPC, two ranks"


def ranks(client: tidegate.Client, folder: Path, rows: int, stack: ExitStack) -> dict[str, Callable[[], object]]:
    """An epoch read by one rank, and by two at the same time. The global batches are the same."""
    return {
        name: partial(_read, [_started(client, folder, rank, count, stack) for rank in range(count)], rows)
        for name, count in ((ONE_RANK, 1), (TWO_RANKS, TWO))
    }


def _started(client: tidegate.Client, folder: Path, rank: int, count: int, stack: ExitStack) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "benchmarks.training_ranks"]
    process = started([*program, str(client.address), str(folder), str(rank), str(count)], stack, TOP)
    answer(process)
    return process


def _read(processes: Sequence[subprocess.Popen[str]], rows: int) -> None:
    for process in processes:
        say(process, "epoch")
    check(sum(int(answer(process)) for process in processes), rows)


def main(address: str, folder: str, rank: str, count: str) -> None:
    with tidegate.connect(address) as client:
        print("ready", flush=True)
        for _ in sys.stdin:
            batches = loader(client, WIDE, Path(folder), rank=int(rank), ranks=int(count), shards=TWO)
            print(sum(len(batch[WIDE.first]) for batch in batches), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
