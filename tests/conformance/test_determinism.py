"""Strict answers, bit for bit: the digests in a file come again in every process, whatever the surroundings."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from . import strict_digests

PINNED: Final = Path(__file__).with_name("strict_digests.json")

#: The environment of the process, the service's threads, random delays in its scheduler, batches of odd sizes.
SURROUNDINGS: Final[dict[str, tuple[dict[str, str], dict[str, Any]]]] = {
    "one thread": (
        {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "0"},
        {"threads": 1, "shaken": False, "odd": False},
    ),
    "odd batches and delays": (
        {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
        {"threads": 7, "shaken": True, "odd": True},
    ),
    "two threads and delays": (
        {"TZ": "America/New_York", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "3"},
        {"threads": 2, "shaken": True, "odd": False},
    ),
}


def engine() -> dict[str, str]:
    """What a digest is promised for: versions of the engine on one kind of processor."""
    return {"duckdb": duckdb.__version__, "machine": platform.machine()}


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_the_pinned_digests_come_again(surroundings: str, tpch_files: dict[str, Path], project: Path) -> None:
    pinned = json.loads(PINNED.read_text())
    if pinned["engine"] != engine():
        pytest.skip(f"the digests are those of {pinned['engine']}")
    changes, how = SURROUNDINGS[surroundings]
    assert _computed(project, next(iter(tpch_files.values())).parent, changes, how) == pinned["digests"]


def test_with_several_channels_the_surroundings_show_as_little(tpch_files: dict[str, Path], project: Path) -> None:
    folder = next(iter(tpch_files.values())).parent
    first, *others = [
        _computed(project, folder, changes, {**how, "channels": 3}) for changes, how in SURROUNDINGS.values()
    ]
    assert len(first) > 20
    assert others == [first, first]


def test_the_inputs_are_such_that_order_shows() -> None:
    """Sums whose bits depend on the order of adding, and more groups than come out in an order of their own."""
    facts = strict_digests.tables()["facts"]
    values = facts["x"].to_pylist()
    assert sum(values) != sum(reversed(values))
    assert len(set(facts["g"].to_pylist())) > 50_000


def _computed(project: Path, tpch_folder: Path, changes: dict[str, str], how: dict[str, Any]) -> dict[str, str]:
    command = [sys.executable, "-m", f"{__package__}.strict_digests", str(tpch_folder), json.dumps(how)]
    done = subprocess.run(
        command, cwd=project, env={**os.environ, **changes}, stdout=subprocess.PIPE, check=True, text=True
    )
    return dict(json.loads(done.stdout))
