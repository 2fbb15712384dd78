"""The parts of a large checkpoint are read while others become state: the same rows and errors, a bounded number."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.checkpoints import parts_ahead
from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.checkpoints.manifest import Manifest
from tidegate.executor.checkpoints.state import TablesReader
from tidegate.proto.errors import CheckpointError

from .test_folder import table, take

SECONDS = 30


class WatchedDisk(LocalDisk):
    """It notes the files that were read, and the threads that read them."""

    def __init__(self) -> None:
        self.read_by: dict[str, threading.Thread] = {}
        self.more = threading.Condition()

    def read(self, path: Path) -> pa.Buffer:
        with self.more:
            self.read_by[path.name] = threading.current_thread()
            self.more.notify_all()
        return super().read(path)

    def has_read(self, files: set[str]) -> bool:
        """True once all of these files have been read; False if that takes long."""
        with self.more:
            return self.more.wait_for(lambda: files <= self.read_by.keys(), SECONDS)


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def folder(disk: WatchedDisk, tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(disk, tmp_path / "task")


@pytest.fixture(autouse=True)
def every_checkpoint_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_ahead, "_WORTH_BYTES", 0)


@pytest.fixture
def taken(folder: CheckpointFolder, disk: WatchedDisk) -> Manifest:
    """A checkpoint with six parts of one size, the third and the last one alike."""
    manifest = take(folder, "one", 1, *(table(number) for number in (1, 2, 3, 4, 5, 3)))
    disk.read_by.clear()
    return manifest


def test_parts_come_in_their_order_and_one_that_is_named_twice_comes_twice(
    folder: CheckpointFolder, taken: Manifest
) -> None:
    with TablesReader(folder, taken) as reader:
        assert reader.read("state")[1]["x"].to_pylist() == [1, 2, 3, 4, 5, 3]


def test_the_next_parts_are_read_on_other_threads_while_one_is_taken_in(
    folder: CheckpointFolder, taken: Manifest, disk: WatchedDisk
) -> None:
    ahead = parts_ahead.PartsAhead(folder, taken)
    ahead.table(taken.parts[0])
    assert disk.has_read({part.file for part in taken.parts})
    ahead.close()
    assert threading.current_thread() not in disk.read_by.values()


def test_parts_are_begun_while_those_that_wait_have_fewer_bytes_than_the_bound(
    folder: CheckpointFolder, taken: Manifest, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_ahead, "_AHEAD_BYTES", taken.parts[0].size + 1)
    ahead = parts_ahead.PartsAhead(folder, taken)
    ahead.table(taken.parts[0])
    assert disk.has_read({part.file for part in taken.parts[:3]})
    ahead.close()
    assert disk.read_by.keys() == {part.file for part in taken.parts[:3]}


def test_damage_is_told_by_the_part_that_has_it_once_that_is_asked_for(
    folder: CheckpointFolder, taken: Manifest, tmp_path: Path
) -> None:
    first, second, *_ = taken.parts
    path = tmp_path / "task" / second.file
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ahead = parts_ahead.PartsAhead(folder, taken)
    assert ahead.table(first) == table(1)
    with pytest.raises(CheckpointError, match=f"the bytes of its file {second.file} differ"):
        ahead.table(second)
    ahead.close()


def test_a_small_checkpoint_is_read_without_other_threads(
    folder: CheckpointFolder, taken: Manifest, disk: WatchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_ahead, "_WORTH_BYTES", taken.size + 1)
    with TablesReader(folder, taken) as reader:
        reader.read("state")
    assert set(disk.read_by.values()) == {threading.current_thread()}
