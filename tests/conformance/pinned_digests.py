"""The digests of strict plans, pinned for each version of the engine and kind of processor.

`make digests` computes those of this machine's engine, and writes them beside the others. A digest that changes while
the engine's version stays the same is a promise broken: say in the changelog why.
"""

from __future__ import annotations

import functools
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, TypeAlias

import duckdb

from . import tpch

FILE: Final = Path(__file__).with_name("strict_digests.json")
CHANNELS: Final = [1, 2, 3]
Digests: TypeAlias = dict[str, dict[str, str]]
"""By the number of channels, then by the plan."""


class NotPinnedError(AssertionError):
    """Nobody has looked at what this engine answers."""


def engine() -> str:
    return f"duckdb {duckdb.__version__} on {platform.machine()}"


@functools.cache
def pinned(version: str = "") -> Digests:
    """The digests of the engine of this process."""
    known: dict[str, Digests] = json.loads(FILE.read_text())
    wanted = version or engine()
    if wanted not in known:
        raise NotPinnedError(
            f"no digests are pinned for {wanted}, only for {', '.join(known)}: compare its answers with those of "
            "another version, then pin them with `make digests`"
        )
    return known[wanted]


def main() -> None:
    known: dict[str, Digests] = json.loads(FILE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        tpch.generate(Path(folder))
        command = [sys.executable, "-m", f"{__package__}.strict_digests", folder, json.dumps({"channels": CHANNELS})]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    known[engine()] = json.loads(done.stdout)
    FILE.write_text(json.dumps(known, indent=2) + "\n")
    print(f"pinned the digests of {engine()}")


if __name__ == "__main__":
    main()
