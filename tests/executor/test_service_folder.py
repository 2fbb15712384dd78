"""Permissions of the folders that a service writes to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.executor.runtime.service_folder import ServiceFolder


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("usual_umask")
def test_a_spill_folder_that_the_service_makes_is_for_its_user_alone(tmp_path: Path) -> None:
    parent = tmp_path / "spill"
    with contextlib.ExitStack() as stack:
        folder = ServiceFolder(parent)
        stack.callback(folder.release)
        assert (mode(parent), mode(folder.path)) == (0o700, 0o700)


def test_a_spill_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with contextlib.ExitStack() as stack:
        folder = ServiceFolder(tmp_path)
        stack.callback(folder.release)
        assert (mode(tmp_path), mode(folder.path)) == (0o755, 0o700)
