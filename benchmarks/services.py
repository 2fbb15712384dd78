"""Tidegate for a benchmark: in this process, and as a server in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tidegate


@contextmanager
def embedded() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


@contextmanager
def served(root: Path, options: Sequence[str] = ()) -> Iterator[tidegate.Client]:
    """A client of a server that runs in its own process, may read files under `root`, and ends with the block."""
    command = [sys.executable, "-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--root", str(root)]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        with tidegate.connect(_address(process)) as client:
            yield client
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout is not None else ""
    found = re.search(r"\S+:\d+", line)
    if found is None:
        raise RuntimeError(f"the server did not say where it listens: {line!r}")
    return found.group()
