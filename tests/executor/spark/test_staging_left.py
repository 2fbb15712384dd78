"""The staging place of a killed service: the next one removes it, and touches none that is in use."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidegate
from tidegate.executor.runtime.service_folder import ServiceFolder

from ...sparks import PROJECT

KILLED = """
import os, signal, sys
import tidegate
tidegate.local(spark_staging=sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_killed_service(staging: Path) -> Path:
    command = [sys.executable, "-c", KILLED, str(staging)]
    ended = subprocess.run(command, cwd=PROJECT, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    (left,) = staging.iterdir()
    (left / "a task").mkdir()
    (left / "a task" / "rows.arrow").touch()
    return left


def test_the_next_service_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    left = left_by_a_killed_service(tmp_path)
    with tidegate.local(spark_staging=tmp_path), tidegate.local(spark_staging=tmp_path):
        assert not left.exists()
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("unmarked_seconds", "stays"), [(3000, True), (4000, False)])
def test_a_folder_of_another_machine_is_judged_by_its_mark(tmp_path: Path, unmarked_seconds: int, stays: bool) -> None:
    left = left_by_a_killed_service(tmp_path)
    (left / "in-use").write_text(f"not-{socket.gethostname()}")
    marked = time.time() - unmarked_seconds
    os.utime(left / "in-use", (marked, marked))
    with tidegate.local(spark_staging=tmp_path):
        assert left.exists() is stays


def test_a_service_marks_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.executor.runtime.service_folder._MARK_SECONDS", 0.01)
    folder = ServiceFolder(tmp_path, shared=True)
    os.utime(folder.path / "in-use", (1, 1))
    deadline = time.monotonic() + 10
    while (folder.path / "in-use").stat().st_mtime == 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (folder.path / "in-use").stat().st_mtime > 1
    folder.release()
    assert list(tmp_path.iterdir()) == []
