"""A service leaves nothing behind, however its process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidegate

from ..clients.plans import totals

_OPEN = """
import os, sys, pathlib, tidegate
client = tidegate.local(spill_directory=sys.argv[1])
client.create_task(pathlib.Path(sys.argv[2])).run_epoch({})
print(len(os.listdir(sys.argv[1])))
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.bin"
    path.write_bytes(totals())
    return path


def test_a_service_that_nobody_closed_ends_with_its_process_and_says_nothing(tmp_path: Path, plan: Path) -> None:
    done = run(_OPEN, tmp_path / "spill", plan)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert list((tmp_path / "spill").iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_service(tmp_path: Path, plan: Path) -> None:
    killed = run(_OPEN + "os.kill(os.getpid(), 9)", tmp_path / "spill", plan)
    (left,) = (tmp_path / "spill").iterdir()
    with tidegate.local(spill_directory=tmp_path / "spill"):
        assert killed.returncode == -9
        assert not left.exists()


def test_folders_of_living_services_and_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "tidegate-other").mkdir()
    with tidegate.local(spill_directory=tmp_path):
        folders = set(tmp_path.iterdir())
        with tidegate.local(spill_directory=tmp_path):
            assert folders < set(tmp_path.iterdir())
        assert set(tmp_path.iterdir()) == folders
    assert [path.name for path in tmp_path.iterdir()] == ["tidegate-other"]
