"""Files of a table that other processes write, a file for each channel: all of an epoch's are in the table, or none."""

from __future__ import annotations

import contextlib
import itertools
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.write import AdoptingWrite
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.operators.writing.modes import WriteMode
from tidegate.operators.writing.part_writer import PartWriter
from tidegate.operators.writing.staged_write import Written
from tidegate.operators.writing.table_folder import OpenFolder, TableFolder
from tidegate.proto.errors import ExecutionError, Exhausted

from .test_write import SCHEMA, Killed, everything, rows, shown, values_in, write
from .test_write import epoch as others

Parts = Sequence[Sequence[int]]


def adopting(
    root: Path, writer: str = "task", mode: WriteMode = WriteMode.APPEND, quota: int = 1 << 30
) -> AdoptingWrite:
    return AdoptingWrite(
        pa.schema([SCHEMA.field("n")]),
        table=SCHEMA,
        returned=(0,),
        folder=TableFolder(str(root), ("t",)),
        format_=WRITE_FORMATS["parquet"],
        mode=mode,
        writer=writer,
        quota=quota,
    )


def run(operator: AdoptingWrite, number: int, parts: Parts, attempts: int = 1) -> list[int]:
    """The rows handed on. Each channel's file is written by so many attempts, of which the last one counts."""

    def job() -> Iterator[pa.RecordBatch]:
        adopted, handed_on = [], []
        for channel, numbers in enumerate(parts):
            for _ in range(attempts):
                part = PartWriter(pickle.loads(pickle.dumps(operator.target())), pipeline=0, channel=channel)
                batches = list(part.run(iter(rows(*numbers).to_batches())))
            handed_on += batches
            adopted += [part.part] if part.part is not None else []
        operator.adopt(adopted)
        yield from handed_on

    operator.begin(number)
    return [n for batch in operator.run([BatchStream(operator.schema, job())]) for n in batch.column(0).to_pylist()]


def epoch(operator: AdoptingWrite, number: int, parts: Parts) -> Written:
    run(operator, number, parts)
    return operator.commit()


def test_the_table_has_a_file_for_each_channel_with_rows_in_the_channels_order(tmp_path: Path) -> None:
    operator = adopting(tmp_path)
    assert run(operator, 1, [[3, 1], [], [2]], attempts=2) == [3, 1, 2]
    assert shown(tmp_path / "t") == []
    written = operator.commit()
    assert (written.files, written.rows) == (2, 3)
    assert written.bytes == sum(file.stat().st_size for file in (tmp_path / "t").iterdir())
    epoch(operator, 2, [[9], [8]])
    assert values_in(tmp_path / "t") == [3, 1, 2, 9, 8]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def test_an_epoch_done_again_replaces_its_own_files_whatever_their_number(tmp_path: Path) -> None:
    others(write(tmp_path, writer="other"), 1, 7)
    for parts in ([[1], [2], [3]], [[4]], [[5], [6]], [[], [1]]):
        epoch(adopting(tmp_path), 1, parts)
        assert sorted(values_in(tmp_path / "t")) == sorted([7, *itertools.chain(*parts)])


def test_a_created_table_without_rows_is_one_file_that_has_its_columns(tmp_path: Path) -> None:
    operator = adopting(tmp_path)
    assert (epoch(operator, 1, [[], []]).files, epoch(operator, 2, [[], []]).files) == (1, 0)


def test_other_tables_files_are_replaced_by_all_of_an_epoch(tmp_path: Path) -> None:
    epoch(adopting(tmp_path, "other"), 1, [[1], [2]])
    epoch(adopting(tmp_path, mode=WriteMode.REPLACE), 1, [[3], [4]])
    assert values_in(tmp_path / "t") == [3, 4]


@pytest.mark.parametrize("step", ["create", "rename", "sync", "remove"])
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("who", ["task", "another"])
def test_what_a_killed_process_had_begun_to_publish_is_completed_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int, who: str
) -> None:
    epoch(adopting(tmp_path), 1, [[1], [2]])

    operator = adopting(tmp_path, mode=WriteMode.REPLACE, writer="replacing")
    run(operator, 1, [[3], [4], [5]])
    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        _die(patched, step, at)
        operator.commit()
    seen = sorted(values_in(tmp_path / "t"))
    epoch(adopting(tmp_path, who), 2, [[6], [7]])
    assert (now := sorted(values_in(tmp_path / "t"))) in ([1, 2, 6, 7], [3, 4, 5, 6, 7])
    assert seen == [1, 2] or now == [3, 4, 5, 6, 7]


def _die(patched: pytest.MonkeyPatch, step: str, at: int) -> None:
    """With the call of this number of a step the process does nothing more to the folder."""
    calls, dead = itertools.count(), False

    def dying(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            nonlocal dead
            dead = dead or (name == step and next(calls) == at)
            if dead:
                raise Killed
            return real(*arguments)

        return call

    for name in ("create", "rename", "remove", "sync"):
        patched.setattr(OpenFolder, name, dying(name, getattr(OpenFolder, name)))


def test_what_a_living_process_publishes_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is held by an open file, whoever opens the file once more."""
    operator, real = adopting(tmp_path), OpenFolder.rename
    seen: list[list[int]] = []

    def meanwhile(folder: OpenFolder, old: str, new: str) -> None:
        real(folder, old, new)
        if not seen:
            with monkeypatch.context() as patched:
                patched.setattr(OpenFolder, "rename", real)
                epoch(adopting(tmp_path, "other"), 1, [[9]])
            seen.append(values_in(tmp_path / "t"))

    monkeypatch.setattr(OpenFolder, "rename", meanwhile)
    epoch(operator, 1, [[1], [2]])
    assert sorted(seen[0]) == [1, 9]
    assert sorted(values_in(tmp_path / "t")) == [1, 2, 9]


def test_a_log_that_was_not_complete_changes_nothing(tmp_path: Path) -> None:
    epoch(adopting(tmp_path), 1, [[1], [2]])
    (tmp_path / "t" / ".part-0123456789abcdef-00000001.publishing").write_text(json.dumps({"a": "b"})[:-2])
    epoch(adopting(tmp_path), 2, [[3], [4]])
    assert values_in(tmp_path / "t") == [1, 2, 3, 4]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def test_a_disk_that_fails_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch(adopting(tmp_path, "old"), 1, [[9], [8]])
    operator = adopting(tmp_path, mode=WriteMode.REPLACE)
    calls, real = itertools.count(1), OpenFolder.rename

    def failing(folder: OpenFolder, old: str, new: str) -> None:
        if next(calls) == 4:
            raise OSError(28, "No space left on device")
        real(folder, old, new)

    monkeypatch.setattr(OpenFolder, "rename", failing)
    with pytest.raises(ExecutionError, match=r"'t' cannot be written.*No space left"):
        epoch(operator, 1, [[1], [2], [3]])
    operator.drop()
    assert values_in(tmp_path / "t") == [9, 8]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def test_a_file_that_is_not_in_the_folder_here_is_an_error(tmp_path: Path) -> None:
    """The folder of another machine under the same path."""
    here, there = adopting(tmp_path / "here"), adopting(tmp_path / "there")
    for folder in ("here", "there"):
        (tmp_path / folder / "t").mkdir(parents=True)

    def job() -> Iterator[pa.RecordBatch]:
        there.begin(1)
        part = PartWriter(there.target(), pipeline=0, channel=0)
        list(part.run(iter(rows(1).to_batches())))
        assert part.part is not None
        here.adopt([part.part])
        yield from ()

    here.begin(1)
    with pytest.raises(ExecutionError, match=r"one folder for all of them") as error:
        list(here.run([BatchStream(here.schema, job())]))
    assert error.value.reason == "WRITE_FAILED"


def test_a_folder_that_a_channel_does_not_see_is_an_error(tmp_path: Path) -> None:
    operator = adopting(tmp_path)
    operator.begin(1)
    with pytest.raises(ExecutionError, match=r"'t' cannot be written.*No such file") as error:
        list(PartWriter(operator.target(), pipeline=0, channel=0).run(iter(rows(1).to_batches())))
    assert error.value.reason == "WRITE_FAILED"


@pytest.mark.parametrize("parts", [[range(60_000)], [range(20_000), range(20_000, 60_000)]], ids=["one", "together"])
def test_the_channels_files_have_a_quota_together(tmp_path: Path, parts: Parts) -> None:
    size = epoch(adopting(tmp_path, "measured"), 1, [range(60_000)]).bytes
    operator = adopting(tmp_path, quota=size - size // 8)
    with pytest.raises(Exhausted) as error:
        epoch(operator, 1, parts)
    operator.drop()
    assert error.value.reason == "WRITE_QUOTA"
    assert len(shown(tmp_path / "t")) == 1
    assert everything(tmp_path / "t") == shown(tmp_path / "t")
