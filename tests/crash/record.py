"""The result of many runs, as a file that the benchmarks' report shows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Runs of the seeds from `first_seed` on. `crashes` has how often a server was killed at each point, `points` the
    number of all points, and `differ` the seeds whose rows were not those of an undisturbed run.
    """

    version: str
    commit: str
    first_seed: int
    runs: int
    seconds: float
    points: int
    differ: Sequence[int]
    crashes: Mapping[str, int]

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {sum(self.crashes.values())} crashes at {len(self.crashes)} of {self.points} points, "
            f"{len(self.differ)} runs differ {list(self.differ) or ''} ({self.seconds:.0f} s)"
        )

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def version_and_commit() -> tuple[str, str]:
    """The version of Tidegate, and the commit of this checkout; empty outside of one."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    return version("tidegate"), done.stdout.strip()
