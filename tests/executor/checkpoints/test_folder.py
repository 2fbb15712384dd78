"""A folder of checkpoints: what is shared, what is collected, what is told of damage, and what a crash leaves."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.executor.checkpoints.checkpoint_folder import CheckpointFolder
from tidegate.executor.checkpoints.disk import LocalDisk
from tidegate.executor.checkpoints.manifest import FORMAT, Manifest, Origin
from tidegate.executor.checkpoints.state import TablesReader, TablesWriter, Written
from tidegate.proto.errors import CheckpointError, NotFound

from .disks import Crash, CrashingDisk

ORIGIN = Origin(plan="p", meaning="m", options={"channels": 1, "broadcast": []}, tables={}, engines={"tidegate": "0"})
FOLDER = Path("/root/task")


@dataclass(eq=False)
class Run:
    rows: pa.Table


def table(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def take(folder: CheckpointFolder, name: str, epoch: int, *parts: pa.Table) -> Manifest:
    """A checkpoint whose state is one table of these parts."""
    writer = TablesWriter(Written(folder))
    writer.write_parts("state", 1, [Run(part) for part in parts], lambda run: run.rows)
    manifest = Manifest(
        name=name, epoch=epoch, taken_us=1, watermark=None, sources={"a": epoch}, origin=ORIGIN, tables=writer.tables
    )
    folder.commit(manifest)
    folder.collect()
    return manifest


def state(folder: CheckpointFolder, name: str) -> tuple[int, list[int]]:
    """The epoch of a checkpoint, and the rows of its table."""
    manifest = folder.manifest(name)
    _, rows = TablesReader(folder, manifest).read("state")
    return manifest.epoch, rows["x"].to_pylist()


def files(path: Path) -> set[str]:
    return {file.name for file in path.iterdir() if file.suffix == ".arrow"}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(LocalDisk(), tmp_path / "task")


def test_what_was_taken_is_read_back(folder: CheckpointFolder) -> None:
    taken = take(folder, "one", 1, table(1, 2), table(3))
    assert folder.manifest("one") == taken
    assert state(folder, "one") == (1, [1, 2, 3])


def test_the_same_rows_are_one_file_for_all_checkpoints(folder: CheckpointFolder, tmp_path: Path) -> None:
    take(folder, "one", 1, table(1, 2), table(3))
    take(folder, "two", 2, table(1, 2), table(4))
    assert len(files(tmp_path / "task")) == 3


def test_a_part_that_was_written_is_not_asked_for_again(folder: CheckpointFolder) -> None:
    written, part, asked = Written(folder), Run(table(1)), []
    for name in ("one", "two"):
        TablesWriter(written).write_parts(name, 1, [part], lambda run: asked.append(run) or run.rows)
    assert asked == [part]


def test_a_replaced_checkpoints_files_are_removed_unless_another_has_them(
    folder: CheckpointFolder, tmp_path: Path
) -> None:
    take(folder, "last", 1, table(1), table(2))
    take(folder, "kept", 1, table(1))
    take(folder, "last", 2, table(3))
    assert state(folder, "last") == (2, [3])
    assert state(folder, "kept") == (1, [1])
    assert len(files(tmp_path / "task")) == 2


def test_what_an_unfinished_checkpoint_left_is_removed_by_the_next(folder: CheckpointFolder, tmp_path: Path) -> None:
    folder.put(table(9))
    (tmp_path / "task" / "7.writing").write_bytes(b"half")
    take(CheckpointFolder(LocalDisk(), tmp_path / "task"), "one", 1, table(1))
    assert len(list((tmp_path / "task").iterdir())) == 2


def test_an_unknown_checkpoint_is_not_found_and_those_there_are_named(folder: CheckpointFolder) -> None:
    take(folder, "one", 1, table(1))
    with pytest.raises(NotFound, match="no checkpoint 'task/two'; the task's checkpoints are: one"):
        folder.manifest("two")


def damage(path: Path, how: str) -> None:
    match how:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-1])
        case "changed":
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)


@pytest.mark.parametrize(
    ("how", "expected"),
    [("missing", "is missing"), ("cut", "bytes instead of"), ("changed", "differ from the bytes that were written")],
)
def test_a_damaged_file_is_named(folder: CheckpointFolder, tmp_path: Path, how: str, expected: str) -> None:
    [part] = take(folder, "one", 1, table(1)).parts
    damage(tmp_path / "task" / part.file, how)
    with pytest.raises(CheckpointError, match=rf"'task/one' is damaged: .*{part.file}.* {expected}") as raised:
        state(folder, "one")
    assert raised.value.reason == "CHECKPOINT_DAMAGED"


@pytest.mark.parametrize("at", range(0, 500, 17))
def test_a_manifest_of_which_any_byte_differs_is_damaged(folder: CheckpointFolder, tmp_path: Path, at: int) -> None:
    take(folder, "one", 1, table(1))
    path = tmp_path / "task" / "one.json"
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as raised:
        folder.manifest("one")
    assert raised.value.reason == "CHECKPOINT_DAMAGED"


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"a":' * 100_000, '{"format": 1e400}'])
def test_a_manifest_of_other_json_is_damaged(folder: CheckpointFolder, tmp_path: Path, text: str) -> None:
    take(folder, "one", 1, table(1))
    (tmp_path / "task" / "one.json").write_text(text)
    with pytest.raises(CheckpointError) as raised:
        folder.manifest("one")
    assert raised.value.reason == "CHECKPOINT_DAMAGED"


def test_a_newer_format_is_refused_by_its_number(folder: CheckpointFolder, tmp_path: Path) -> None:
    take(folder, "one", 1, table(1))
    path = tmp_path / "task" / "one.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": FORMAT + 1}))
    with pytest.raises(
        CheckpointError, match=f"has format {FORMAT + 1}, and this version of Tidegate reads formats up to {FORMAT}"
    ):
        folder.manifest("one")


def test_damage_shows_in_a_checkpoint_of_a_version_without_fingerprints(
    folder: CheckpointFolder, tmp_path: Path
) -> None:
    taken = take(folder, "one", 1, table(1))
    tables = tuple(
        replace(one, parts=tuple(replace(part, fingerprint="") for part in one.parts)) for one in taken.tables
    )
    folder.commit(replace(taken, tables=tables))
    assert state(folder, "one") == (1, [1])
    damage(tmp_path / "task" / taken.parts[0].file, "changed")
    with pytest.raises(CheckpointError, match="differ from the bytes that were written"):
        state(folder, "one")


def test_state_that_this_build_does_not_know_is_refused(folder: CheckpointFolder) -> None:
    reader = TablesReader(folder, take(folder, "one", 1, table(1)))
    with pytest.raises(CheckpointError, match="has no 'other', which this version of Tidegate keeps"):
        reader.read("other")
    with pytest.raises(CheckpointError, match="has 'state', which this version of Tidegate does not keep"):
        reader.check_all_read()


def test_a_crash_at_any_operation_leaves_the_old_state_or_the_new_one() -> None:
    """The second checkpoint replaces the first one, whose file it shares in part; then it is taken again."""
    old, new = (1, [1, 2, 3]), (2, [1, 2, 4])
    for crash_at in range(1, 100):
        for seed in range(8):
            disk = CrashingDisk()
            take(CheckpointFolder(disk, FOLDER), "last", 1, table(1, 2), table(3))
            disk.crash_at = disk.operations + crash_at
            try:
                take(CheckpointFolder(disk, FOLDER), "last", 2, table(1, 2), table(4))
            except Crash:
                pass
            else:
                assert crash_at > 15
                return
            left = disk.after_the_crash(random.Random(seed))
            assert state(CheckpointFolder(left, FOLDER), "last") in (old, new), (crash_at, seed)
            take(CheckpointFolder(left, FOLDER), "last", 2, table(1, 2), table(4))
            assert state(CheckpointFolder(left, FOLDER), "last") == new
            assert len(left.sizes(FOLDER)) == 3
    raise AssertionError("a checkpoint never ends")


def test_a_manifest_that_was_renamed_but_not_synced_keeps_its_files() -> None:
    """The disk fails behind the rename: the checkpoint is there, however it is told."""

    class FailsOnce(CrashingDisk):
        def sync_names(self, folder: Path) -> None:
            super().sync_names(folder)
            if FOLDER / "one.json" in self.names and not failed:
                failed.append(True)
                raise OSError("no")

    failed: list[bool] = []
    disk = FailsOnce()
    folder = CheckpointFolder(disk, FOLDER)
    take(folder, "zero", 0, table(0))
    with pytest.raises(OSError, match="no"):
        take(folder, "one", 1, table(1))
    take(folder, "two", 2, table(2))
    assert state(folder, "one") == (1, [1])
