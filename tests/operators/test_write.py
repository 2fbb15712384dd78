"""What a table's folder holds after an epoch, as DuckDB and the file system see it: all of the epoch, or nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.operator import Operator
from tidegate.operators.streams import BatchStream
from tidegate.operators.testing import CHECKS, Boom, Case, WatchedStream
from tidegate.operators.write import Write
from tidegate.operators.writing.folder import OpenFolder, TableFolder
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.operators.writing.modes import WriteMode
from tidegate.operators.writing.staged import Written
from tidegate.proto.errors import ExecutionError, Forbidden, InvalidRequest

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "s": [f"row {n}" for n in numbers]}, schema=SCHEMA)


def write(
    root: Path,
    *table: str,
    mode: WriteMode = WriteMode.APPEND,
    returned: Sequence[int] | None = (0, 1),
    format_: str = "parquet",
    writer: str = "task",
    file_bytes: int = 1 << 30,
) -> Write:
    columns = () if returned is None else returned
    return Write(
        pa.schema([SCHEMA.field(index) for index in columns]),
        table=SCHEMA,
        returned=returned,
        folder=TableFolder(str(root), table or ("t",)),
        format_=WRITE_FORMATS[format_],
        mode=mode,
        writer=writer,
        file_bytes=file_bytes,
    )


def epoch(operator: Write, number: int, *numbers: int) -> Written:
    operator.begin(number)
    list(operator.run([BatchStream(SCHEMA, rows(*numbers).to_batches())]))
    return operator.commit()


def found(folder: Path, format_: str = "parquet") -> list[int]:
    """The numbers in the table, file after file."""
    match format_:
        case "arrow":
            tables = [pa.ipc.open_file(folder / name).read_all() for name in shown(folder)]
            return [n for table in tables for n in table["n"].to_pylist()]
        case "csv":
            sql = f"SELECT n FROM read_csv('{folder}/*.csv')"
        case _:
            files = f"read_parquet('{folder}/*.parquet', filename = true, file_row_number = true)"
            sql = f"SELECT n FROM {files} ORDER BY filename, file_row_number"
    return [n for (n,) in duckdb.sql(sql).fetchall()]


def shown(folder: Path) -> list[str]:
    """What a reader sees of it."""
    return sorted(name for name in os.listdir(folder) if not name.startswith((".", "_"))) if folder.exists() else []


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("returned", [(0, 1), (1,), None], ids=["all", "some", "none"])
def test_it_conforms(check: Callable[[Case], None], returned: Sequence[int] | None, tmp_path: Path) -> None:
    numbers = iter(range(1, 10_000))

    def begin(operator: Operator) -> None:
        assert isinstance(operator, Write)
        operator.begin(next(numbers))

    def make() -> Write:
        return write(tmp_path, returned=returned)

    epochs = [[rows(3, 1, 2)], [rows()], [rows(*range(100))]]
    expected = [table.select([SCHEMA.names[index] for index in returned or ()]) for [table] in epochs]
    nothing = [pa.table({}) for _ in epochs]
    check(Case(make=make, epochs=epochs, before=begin, expected=nothing if returned is None else expected))


@pytest.mark.parametrize("format_", ["parquet", "arrow", "csv"])
def test_an_epoch_is_in_the_table_once_it_is_committed_and_in_its_order(tmp_path: Path, format_: str) -> None:
    operator = write(tmp_path, "sales", "daily", format_=format_)
    operator.begin(1)
    returned = list(operator.run([BatchStream(SCHEMA, rows(3, 1, 2).to_batches(max_chunksize=2))]))
    assert shown(tmp_path / "sales" / "daily") == []
    written = operator.commit()
    assert found(tmp_path / "sales" / "daily", format_) == [3, 1, 2]
    assert pa.Table.from_batches(returned) == rows(3, 1, 2)
    assert (written.files, written.rows) == (1, 3)
    assert written.bytes == next((tmp_path / "sales" / "daily").iterdir()).stat().st_size


def test_every_epoch_adds_its_files_after_those_before_it(tmp_path: Path) -> None:
    operator = write(tmp_path)
    for number in range(1, 12):
        epoch(operator, number, number)
    assert found(tmp_path / "t") == list(range(1, 12))


def test_large_epochs_are_files_in_the_order_of_their_rows(tmp_path: Path) -> None:
    many = range(65_536 * 3 + 5)
    assert epoch(write(tmp_path, file_bytes=1), 1, *many).files == 4
    assert found(tmp_path / "t") == list(many)
    assert [pq.read_metadata(tmp_path / "t" / name).num_row_groups for name in shown(tmp_path / "t")] == [1] * 4


def test_an_epoch_done_again_replaces_its_own_files_and_nothing_else(tmp_path: Path) -> None:
    epoch(write(tmp_path, writer="other"), 1, 7)
    epoch(write(tmp_path), 1, 1)
    epoch(write(tmp_path, file_bytes=1), 2, *range(65_537))
    before = {name: (tmp_path / "t" / name).stat().st_ino for name in shown(tmp_path / "t")}
    epoch(write(tmp_path), 2, 5)
    after = {name: (tmp_path / "t" / name).stat().st_ino for name in shown(tmp_path / "t")}
    assert sorted(found(tmp_path / "t")) == [1, 5, 7]
    assert len(before) == 4
    assert len(after.items() & before.items()) == 2


def test_what_a_killed_writer_left_is_hidden_and_goes_when_its_epoch_is_done_again(tmp_path: Path) -> None:
    killed = write(tmp_path)
    killed.begin(1)
    list(killed.run([BatchStream(SCHEMA, rows(1, 2).to_batches())]))
    assert shown(tmp_path / "t") == []
    assert len(everything(tmp_path / "t")) == 1
    epoch(write(tmp_path), 1, 1, 2)
    assert everything(tmp_path / "t") == shown(tmp_path / "t")
    assert found(tmp_path / "t") == [1, 2]


def test_an_input_that_breaks_leaves_nothing_behind_not_even_the_folder(tmp_path: Path) -> None:
    operator = write(tmp_path, "a", "b")
    operator.begin(1)
    broken = WatchedStream(SCHEMA, rows(1, 2, 3).to_batches(max_chunksize=1), breaks_after=2)
    with pytest.raises(Boom):
        list(operator.run([broken]))
    assert everything(tmp_path) == []


@pytest.mark.parametrize("ending", ["drop", "begin", "close"])
def test_a_run_that_is_not_committed_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    operator = write(tmp_path)
    operator.begin(1)
    list(operator.run([BatchStream(SCHEMA, rows(1).to_batches())]))
    {"drop": operator.drop, "begin": lambda: operator.begin(2), "close": operator.close}[ending]()
    assert everything(tmp_path) == []
    assert operator.commit() == Written()


@pytest.mark.parametrize("broken", ["create", "rename", "sync"])
def test_a_disk_that_fails_is_told_and_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    epoch(write(tmp_path, writer="old"), 1, 9)
    operator = write(tmp_path, mode=WriteMode.REPLACE, file_bytes=1)
    calls = itertools.count(1)
    real = getattr(OpenFolder, broken)

    def failing(folder: OpenFolder, *names: str) -> object:
        if next(calls) == (1 if broken == "sync" else 3):
            raise OSError(28, "No space left on device")
        return real(folder, *names)

    monkeypatch.setattr(OpenFolder, broken, failing)
    with pytest.raises(ExecutionError, match=r"'t' cannot be written.*No space left") as error:
        epoch(operator, 1, *range(65_536 * 3))
    operator.drop()
    assert error.value.reason == "WRITE_FAILED"
    assert found(tmp_path / "t") == [9]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def test_a_file_is_on_the_disk_before_it_shows_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rename, sync = OpenFolder.rename, os.fsync

    def noted_sync(descriptor: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        sync(descriptor)

    def noted_rename(folder: OpenFolder, old: str, new: str) -> None:
        steps.append("rename")
        rename(folder, old, new)

    operator = write(tmp_path)
    epoch(operator, 1, 1)
    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(OpenFolder, "rename", noted_rename)
    epoch(operator, 2, 2)
    assert steps == ["sync file", "rename", "sync folder"]


@given(st.data())
def test_whatever_happens_the_table_has_the_committed_epochs_and_nothing_else(data: st.DataObject) -> None:
    """Epochs committed, broken, dropped and done again, by a writer that may be killed and made anew."""
    expected: dict[int, list[int]] = {}
    with tempfile.TemporaryDirectory() as name:
        operator = write(Path(name), file_bytes=1)
        for number in data.draw(st.lists(st.integers(1, 3), max_size=8)):
            numbers = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
            ending = data.draw(st.sampled_from(["commit", "break", "drop", "kill"]))
            batches = rows(*numbers).to_batches(max_chunksize=1)
            breaks_after = len(batches) - 1 if ending == "break" else None
            operator.begin(number)
            with contextlib.suppress(Boom):
                list(operator.run([WatchedStream(SCHEMA, batches, breaks_after=breaks_after)]))
            match ending:
                case "commit":
                    assert operator.commit().rows == len(numbers)
                    expected[number] = numbers
                case "kill":
                    operator = write(Path(name), file_bytes=1)
                case _:
                    operator.drop()
            assert [n for each in sorted(expected) for n in expected[each]] == (
                found(Path(name) / "t") if expected else []
            )


def test_a_created_table_without_rows_is_one_file_that_has_its_columns(tmp_path: Path) -> None:
    operator = write(tmp_path)
    assert epoch(operator, 1).files == 1
    assert epoch(operator, 2).files == 0
    assert epoch(operator, 1).files == 1
    assert pq.read_schema(tmp_path / "t" / shown(tmp_path / "t")[0]).names == ["n", "s"]


def test_an_insert_without_rows_adds_no_file(tmp_path: Path) -> None:
    assert epoch(write(tmp_path, mode=WriteMode.INSERT), 1) == Written()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (WriteMode.INSERT, [1, 2, 3]),
        (WriteMode.APPEND, [1, 2, 3]),
        (WriteMode.REPLACE, [2, 3]),
        (WriteMode.IGNORE, [1]),
    ],
)
def test_the_mode_says_what_becomes_of_a_table_that_exists(
    tmp_path: Path, mode: WriteMode, expected: list[int]
) -> None:
    epoch(write(tmp_path, writer="other"), 1, 1)
    operator = write(tmp_path, mode=mode)
    epoch(operator, 1, 2)
    epoch(operator, 2, 3)
    assert sorted(found(tmp_path / "t")) == expected


def test_an_ignored_epoch_reads_none_of_its_rows_and_returns_none(tmp_path: Path) -> None:
    epoch(write(tmp_path, writer="other"), 1, 1)
    operator = write(tmp_path, mode=WriteMode.IGNORE)
    operator.begin(1)
    stream = WatchedStream(SCHEMA, rows(2, 3).to_batches())
    assert list(operator.run([stream])) == []
    assert (stream.pulled, stream.closed) == (0, True)


@pytest.mark.parametrize("mode", [WriteMode.ERROR, WriteMode.IGNORE])
def test_a_table_that_somebody_makes_meanwhile_is_left_alone(tmp_path: Path, mode: WriteMode) -> None:
    operator = write(tmp_path, mode=mode)
    operator.begin(1)
    list(operator.run([BatchStream(SCHEMA, rows(2).to_batches())]))
    epoch(write(tmp_path, writer="other"), 1, 1)
    with pytest.raises(ExecutionError, match="exists"):
        operator.commit()
    operator.drop()
    assert found(tmp_path / "t") == [1]


def test_a_table_that_exists_is_an_error_where_the_plan_wants_it_to_be_one(tmp_path: Path) -> None:
    operator = write(tmp_path, mode=WriteMode.ERROR)
    epoch(operator, 1, 1)
    epoch(operator, 2, 2)
    with pytest.raises(ExecutionError, match=r"table 't' exists") as error:
        epoch(write(tmp_path, mode=WriteMode.ERROR, writer="other"), 1, 3)
    assert error.value.reason == "TABLE_EXISTS"
    assert found(tmp_path / "t") == [1, 2]


def test_only_what_a_task_has_written_is_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "thesis.docx").write_text("years of work")
    with pytest.raises(ExecutionError, match=r"thesis\.docx, which no task has written"):
        epoch(write(tmp_path, mode=WriteMode.REPLACE), 1, 1)
    assert everything(tmp_path) == ["t", "t/thesis.docx"]


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "_temporary", "a/b", "/etc", "a\x00b", "x" * 256, "\ud800"])
def test_a_name_that_is_no_plain_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        write(tmp_path, "sales", name)
    assert error.value.reason == "BAD_TABLE_NAME"


@pytest.mark.parametrize("parts", [0, 9, 10_000])
def test_a_name_of_no_part_or_of_very_many_is_refused(tmp_path: Path, parts: int) -> None:
    with pytest.raises(InvalidRequest) as error:
        TableFolder(str(tmp_path), ["x"] * parts)
    assert error.value.reason == "BAD_TABLE_NAME"


@pytest.mark.parametrize("table", [("link",), ("link", "inner"), ("file",)])
def test_a_link_or_a_file_in_the_way_is_refused(tmp_path: Path, table: tuple[str, ...]) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file").touch()
    with pytest.raises(Forbidden, match="no folder"):
        write(root, *table)


def test_a_link_that_is_put_in_the_way_later_is_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    operator = write(root)
    (root / "t").symlink_to(outside)
    with pytest.raises(Forbidden):
        epoch(operator, 1, 1)
    assert everything(outside) == []


def test_a_folder_that_is_moved_and_linked_while_it_is_written_takes_its_files_along(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    operator = write(root)
    operator.begin(1)
    list(operator.run([BatchStream(SCHEMA, rows(1).to_batches())]))
    (root / "t").rename(root / "moved")
    (root / "t").symlink_to(outside)
    operator.commit()
    assert everything(outside) == []
    assert found(root / "moved") == [1]


@pytest.mark.parametrize(
    ("format_", "type_"), [("csv", pa.list_(pa.int64())), ("parquet", pa.month_day_nano_interval())]
)
def test_a_column_that_the_format_has_not_is_refused_at_once(format_: str, type_: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=f"{format_} files cannot hold the column 'x'"):
        Write(
            pa.schema([]),
            table=pa.schema([("x", type_)]),
            returned=None,
            folder=TableFolder(str(tmp_path), ["t"]),
            format_=WRITE_FORMATS[format_],
            mode=WriteMode.INSERT,
            writer="task",
        )
