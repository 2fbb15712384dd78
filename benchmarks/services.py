"""Tidegate for a benchmark, in this process and as a server; and its peers' servers, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tidegate

from .limits import START_SECONDS, within
from .settings import TOP

_running: set[subprocess.Popen[str]] = set()


@contextmanager
def embedded() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


@contextmanager
def served(root: Path, options: Sequence[str] = ()) -> Iterator[tidegate.Client]:
    """A client of a server that runs in its own process, may read files under `root`, and ends with the block."""
    root.mkdir(parents=True, exist_ok=True)
    command = ["-m", "tidegate.server.cli", "serve", "--listen", "127.0.0.1:0", "--root", str(root), *options]
    with _process(command, root) as address, tidegate.connect(address) as client:
        yield client


@contextmanager
def peer(module: str, *arguments: str) -> Iterator[str]:
    """The address of a server of this package, which prints it."""
    with _process(["-m", f"benchmarks.{module}", *arguments], TOP) as address:
        yield address


def end_all() -> None:
    """End the processes of a case that was given up, and with them what it waits for."""
    for process in list(_running):
        process.kill()


@contextmanager
def _process(command: Sequence[str], folder: Path, *, start_seconds: float = START_SECONDS) -> Iterator[str]:
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, cwd=folder)
    _running.add(process)
    try:
        line = within(start_seconds, lambda: process.stdout.readline() if process.stdout is not None else "")
        address = re.search(r"\S+:\d+", line)
        if address is None:
            raise RuntimeError(f"{' '.join(command)} did not say where it listens: {line!r}")
        yield address.group()
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:  # its case is measured; the next ones need the machine
            process.kill()
            process.wait()
        _running.discard(process)
        if process.stdout is not None:
            process.stdout.close()
