"""Resident memory and the first rows, for each way to feed a task: 1.9 GB of rows of 100 KB at a limit of 256 MiB.

Each run has a service of its own, in the process of its client or as a server. The service's process, with those that
it starts, may take the limit and 256 MiB; one that decodes ORC files has room of its own. The plan is row-wise: rows
come soon after the first file, whatever is fed later, and wait for a reader that is slow or away before they spill.
`make feeding` prints a table of all runs.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .. import forked
from .resident import MIB, READERS, SECONDS, allowed, written
from .resident_epoch import peak
from .resident_kinds import WIDTHS, planned

PLANS: Final[Mapping[str, str]] = {
    "read": "SELECT k, g, t FROM l",
    "filter": "SELECT k, g, t FROM l WHERE k >= 3",
    "project": "SELECT k, t || 'x' AS t FROM l",
}
LAYOUTS: Final = ("parquet", "arrow", "arrow stream", "arrow stream in one batch", "csv", "json", "orc")
FEEDS: Final = ("files", "uploads", "tables", "uploaded tables", "streams", "inline", "table of a stream")
OF_FILES: Final = 4
"""The first so many take files; the others take rows, which the client reads from an Arrow file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    feed: str = "files"
    layout: str = "parquet"
    plan: str = "filter"
    determinism: str = "strict"
    reader: str = "fast"
    remote: bool = False
    files: int = 10
    size: int = 190 * 1_000_000
    width: str = "100 KB"
    limit: int = 256 * MIB

    def __str__(self) -> str:
        at = "gRPC" if self.remote else "embedded"
        return f"{self.feed:18}{self.layout:26}{self.width:>6} {self.plan:8}{self.determinism:8}{self.reader:5}{at:9}"


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes resident at most in the service, seconds to the first rows and the last, rows, bytes spilled, the error."""

    peak: int
    first: float
    last: float
    rows: int
    spilled: int
    error: str


def paths(folder: Path, run: Run) -> Sequence[str]:
    """So many names of one file: other files to the service, which take the disk's room once."""
    file = Path(written(folder, run.layout, WIDTHS[run.width], run.size))
    names = [file.with_name(f"{number}-{file.name}") for number in range(run.files)]
    for name in names:
        if not name.exists():
            os.link(file, name)
    return list(map(str, names))


def taken(run: Run, folder: Path) -> Taken:
    """One run: of a child process, or of a server in one and a client in another."""
    asked = {
        "paths": list(paths(folder, run)),
        "plan": base64.b64encode(planned(PLANS[run.plan])).decode(),
        "options": {
            "memory_limit": run.limit,
            "output_bytes": 8 * MIB,
            "queue_bytes": 8 * MIB,
            "determinism": run.determinism,
        },
        "feed": run.feed,
        "reader": READERS[run.reader],
    }
    with _service(run, folder) as (address, process):
        child = f"{__package__}.resident_feeding_run"
        answer = forked.run(child, stdin=json.dumps({**asked, "address": address}), seconds=SECONDS)
        if answer.returncode:
            raise RuntimeError(f"{run}: {answer.stderr}")
        own, *rest = json.loads(answer.stdout)
        return Taken(own if process is None else peak(process.pid), *rest)


@contextlib.contextmanager
def _service(run: Run, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str] | None]]:
    if not run.remote:
        yield "", None
        return
    command = ["-m", "tidegate.server.cli", "serve", "--listen=127.0.0.1:0", f"--root={folder}"]
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1], server
        finally:
            server.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, choices in (
        ("feed", FEEDS),
        ("layout", LAYOUTS),
        ("plan", PLANS),
        ("determinism", ["strict", "relaxed"]),
        ("reader", READERS),
        ("service", ["embedded", "gRPC"]),
        ("width", WIDTHS),
    ):
        parser.add_argument(f"--{name}", action="append", choices=list(choices), help="only these")
    parser.add_argument("--limit", type=int, default=256, help="MiB")
    parser.add_argument("--files", type=int, default=10, help="of 190 MB each")
    parser.add_argument("--folder", type=Path, help="where the files of rows are kept")
    asked = parser.parse_args(arguments)
    broken = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        for run in _runs(asked):
            answer = taken(run, folder)
            over = answer.peak - allowed(run.layout, run.limit)
            broken += over > 0 or bool(answer.error)
            beyond = f"{over // MIB:+} MiB beyond " if over > 0 else ""
            print(
                f"{run}{answer.peak >> 20:5} MiB, first rows after {answer.first:5.2f} s, {answer.rows:6} rows after "
                f"{answer.last:5.1f} s, {answer.spilled >> 20:4} MiB spilled {beyond}{answer.error[:160]}",
                flush=True,
            )
    return min(broken, 1)


def _runs(asked: argparse.Namespace) -> Iterator[Run]:
    for feed in asked.feed or FEEDS:
        for layout in (asked.layout or LAYOUTS) if feed in FEEDS[:OF_FILES] else ["arrow"]:
            for plan in asked.plan or ["filter"]:
                for determinism in asked.determinism or ["strict", "relaxed"]:
                    for reader in asked.reader or READERS:
                        for service in asked.service or ["embedded", "gRPC"]:
                            for width in asked.width or ["100 KB"]:
                                yield Run(
                                    feed=feed,
                                    layout=layout,
                                    plan=plan,
                                    determinism=determinism,
                                    reader=reader,
                                    remote=service == "gRPC",
                                    width=width,
                                    limit=asked.limit * MIB,
                                    files=asked.files,
                                )


if __name__ == "__main__":
    sys.exit(main())
