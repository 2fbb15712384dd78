"""The folder of a table after an epoch, as DuckDB and the file system see it: all of the epoch, or nothing."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.operator import Operator
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.testing import CHECKS, Boom, Case, WatchedStream
from tidegate.operators.write import Write
from tidegate.operators.writing.formats import WRITE_FORMATS
from tidegate.operators.writing.modes import WriteMode
from tidegate.operators.writing.staged_write import Written
from tidegate.operators.writing.table_folder import OpenFolder, TableFolder
from tidegate.proto.errors import ExecutionError, Exhausted, Forbidden, InvalidRequest

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
    quota: int = 1 << 30,
    schema: pa.Schema = SCHEMA,
) -> Write:
    columns = () if returned is None else returned
    return Write(
        pa.schema([schema.field(index) for index in columns]),
        table=schema,
        returned=returned,
        folder=TableFolder(str(root), table or ("t",)),
        format_=WRITE_FORMATS[format_],
        mode=mode,
        writer=writer,
        quota=quota,
    )


def epoch(operator: Write, number: int, *numbers: int) -> Written:
    operator.begin(number)
    list(operator.run([BatchStream(SCHEMA, rows(*numbers).to_batches())]))
    return operator.commit()


def values_in(folder: Path, format_: str = "parquet") -> list[int]:
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
    assert values_in(tmp_path / "sales" / "daily", format_) == [3, 1, 2]
    assert pa.Table.from_batches(returned) == rows(3, 1, 2)
    assert (written.files, written.rows) == (1, 3)
    assert written.bytes == next((tmp_path / "sales" / "daily").iterdir()).stat().st_size


def test_every_epoch_adds_its_files_after_those_before_it(tmp_path: Path) -> None:
    operator = write(tmp_path)
    for number in range(1, 12):
        epoch(operator, number, number)
    assert values_in(tmp_path / "t") == list(range(1, 12))


def test_an_epoch_is_one_file_however_many_blocks_it_has(tmp_path: Path) -> None:
    many = range(65_536 * 3 + 5)
    assert epoch(write(tmp_path), 1, *many).files == 1
    assert values_in(tmp_path / "t") == list(many)
    [name] = shown(tmp_path / "t")
    assert pq.read_metadata(tmp_path / "t" / name).num_row_groups == 4


def test_an_epoch_done_again_replaces_its_own_file_and_nothing_else(tmp_path: Path) -> None:
    epoch(write(tmp_path, writer="other"), 1, 7)
    epoch(write(tmp_path), 1, 1)
    epoch(write(tmp_path), 2, *range(65_537))
    before = {name: (tmp_path / "t" / name).stat().st_ino for name in shown(tmp_path / "t")}
    epoch(write(tmp_path), 2, 5)
    after = {name: (tmp_path / "t" / name).stat().st_ino for name in shown(tmp_path / "t")}
    assert sorted(values_in(tmp_path / "t")) == [1, 5, 7]
    assert before.keys() == after.keys()
    assert len(after.items() & before.items()) == 2


@pytest.mark.parametrize("mode", [WriteMode.INSERT, WriteMode.APPEND])
def test_an_epoch_done_again_without_rows_takes_its_file_away(tmp_path: Path, mode: WriteMode) -> None:
    epoch(write(tmp_path, writer="other"), 1, 7)
    epoch(write(tmp_path, mode=mode), 1, 1)
    assert epoch(write(tmp_path, mode=mode), 1) == Written()
    assert values_in(tmp_path / "t") == [7]


class Killed(BaseException):
    """An error that nothing below the test catches: the process is gone."""


@pytest.mark.parametrize("step", ["create", "rename", "sync"])
@pytest.mark.parametrize("at", range(3))
def test_a_writer_killed_at_any_step_leaves_whole_epochs_and_done_again_neither_lacks_nor_doubles_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    first, second = range(65_537), range(65_537, 140_000)
    with monkeypatch.context() as patched, contextlib.suppress(Killed):
        patched.setattr(OpenFolder, step, _dies(getattr(OpenFolder, step), itertools.count(), at))
        patched.setattr(OpenFolder, "remove", lambda folder, name: None)  # the dead take nothing back
        killed = write(tmp_path)
        epoch(killed, 1, *first)
        epoch(killed, 2, *second)
    committed = len(shown(tmp_path / "t"))
    whole = [*first, *second][: (0, len(first), len(first) + len(second))[committed]]
    assert (values_in(tmp_path / "t") if committed else []) == whole
    again = write(tmp_path)
    epoch(again, 1, *first)
    epoch(again, 2, *second)
    assert values_in(tmp_path / "t") == [*first, *second]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def _dies(real: Callable[..., object], calls: Iterator[int], at: int) -> Callable[..., object]:
    def dying(*arguments: object) -> object:
        if next(calls) == at:
            raise Killed
        return real(*arguments)

    return dying


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.REPLACE])
def test_whoever_looks_meanwhile_sees_all_of_an_epoch_or_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: WriteMode
) -> None:
    """A reader looks before and after each thing that is done to the folder: what others have is never gone first."""
    epoch(write(tmp_path, writer="other"), 1, 9)
    seen: set[tuple[int, ...]] = set()

    def watched(real: Callable[..., object]) -> Callable[..., object]:
        def looking(*arguments: object) -> object:
            seen.add(tuple(sorted(values_in(tmp_path / "t"))))
            result = real(*arguments)
            seen.add(tuple(sorted(values_in(tmp_path / "t"))))
            return result

        return looking

    for step in ("create", "rename", "remove", "sync"):
        monkeypatch.setattr(OpenFolder, step, watched(getattr(OpenFolder, step)))
    operator = write(tmp_path, mode=mode)
    epoch(operator, 1, 1, 2)
    epoch(operator, 2, 3)
    kept = (9,) if mode is WriteMode.APPEND else ()
    assert seen == {(9,), (1, 2, 9), (1, 2, *kept), (1, 2, 3, *kept)}


def test_what_a_killed_writer_left_is_hidden_and_goes_when_its_epoch_is_done_again(tmp_path: Path) -> None:
    killed = write(tmp_path)
    killed.begin(1)
    list(killed.run([BatchStream(SCHEMA, rows(1, 2).to_batches())]))
    assert shown(tmp_path / "t") == []
    assert len(everything(tmp_path / "t")) == 1
    epoch(write(tmp_path), 1, 1, 2)
    assert everything(tmp_path / "t") == shown(tmp_path / "t")
    assert values_in(tmp_path / "t") == [1, 2]


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
    operator = write(tmp_path, mode=WriteMode.REPLACE)
    calls = itertools.count(1)
    real = getattr(OpenFolder, broken)

    def failing(folder: OpenFolder, *names: str) -> object:
        if next(calls) == (2 if broken == "rename" else 1):
            raise OSError(28, "No space left on device")
        return real(folder, *names)

    monkeypatch.setattr(OpenFolder, broken, failing)
    with pytest.raises(ExecutionError, match=r"'t' cannot be written.*No space left") as error:
        epoch(operator, 1, *range(65_536 * 3))
    operator.drop()
    assert error.value.reason == "WRITE_FAILED"
    assert values_in(tmp_path / "t") == [9]
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
        operator = write(Path(name))
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
                    operator = write(Path(name))
                case _:
                    operator.drop()
            assert [n for name in sorted(expected) for n in expected[name]] == (
                values_in(Path(name) / "t") if expected else []
            )


def test_a_created_table_without_rows_is_one_file_that_has_its_columns(tmp_path: Path) -> None:
    operator = write(tmp_path)
    assert epoch(operator, 1).files == 1
    assert epoch(operator, 2).files == 0
    assert epoch(operator, 1).files == 1
    assert pq.read_schema(tmp_path / "t" / shown(tmp_path / "t")[0]).names == ["n", "s"]


def test_a_created_table_has_the_same_files_when_its_first_epoch_is_done_again_without_rows(tmp_path: Path) -> None:
    operator = write(tmp_path, mode=WriteMode.ERROR)
    epoch(operator, 1)
    epoch(operator, 2, 1)
    before = shown(tmp_path / "t")
    epoch(operator, 1)
    assert shown(tmp_path / "t") == before
    assert len(before) == 2


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
    assert sorted(values_in(tmp_path / "t")) == expected


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
    assert values_in(tmp_path / "t") == [1]


def test_a_table_that_exists_is_an_error_where_the_plan_wants_it_to_be_one(tmp_path: Path) -> None:
    operator = write(tmp_path, mode=WriteMode.ERROR)
    epoch(operator, 1, 1)
    epoch(operator, 2, 2)
    with pytest.raises(ExecutionError, match=r"table 't' exists") as error:
        epoch(write(tmp_path, mode=WriteMode.ERROR, writer="other"), 1, 3)
    assert error.value.reason == "TABLE_EXISTS"
    assert values_in(tmp_path / "t") == [1, 2]


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
    with pytest.raises(Forbidden, match="not a folder"):
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
    assert values_in(root / "moved") == [1]


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
            quota=1 << 30,
        )


OTHER_COLUMNS = [
    (pa.schema([("n", pa.int64())]), "1 columns in the file and 2 in the plan"),
    (pa.schema([("s", pa.string()), ("n", pa.int64())]), "column 1 is 's' in the file and 'n' in the plan"),
    (pa.schema([("n", pa.int32()), ("s", pa.string())]), "column 'n' is int32 in the file and int64 in the plan"),
]


@pytest.mark.parametrize("mode", [WriteMode.INSERT, WriteMode.APPEND])
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.parametrize(("columns", "difference"), OTHER_COLUMNS, ids=["fewer", "order", "type"])
def test_a_table_of_other_columns_is_not_added_to(
    tmp_path: Path, mode: WriteMode, format_: str, columns: pa.Schema, difference: str
) -> None:
    other = write(tmp_path, writer="other", schema=columns, returned=None, format_=format_)
    other.begin(1)
    list(other.run([BatchStream(columns, columns.empty_table().to_batches())]))
    other.commit()
    before = everything(tmp_path)
    with pytest.raises(ExecutionError, match=f"table 't' cannot be added to: .*{format_} has .* {difference}") as error:
        epoch(write(tmp_path, mode=mode), 1, 1)
    assert error.value.reason == "COLUMNS_DIFFER"
    assert everything(tmp_path) == before


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "type_",
    [
        pa.int8(),
        pa.float32(),
        pa.decimal128(38, 9),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.binary(),
        pa.binary(16),
        pa.uuid(),
        pa.list_(pa.field("item", pa.int64(), nullable=False)),
        pa.struct([pa.field("a", pa.string(), nullable=False)]),
        pa.map_(pa.string(), pa.int64()),
    ],
    ids=str,
)
def test_what_one_task_has_written_another_adds_to(tmp_path: Path, format_: str, type_: pa.DataType) -> None:
    schema = pa.schema([pa.field("x", type_)])
    for writer in ("one", "two"):
        operator = write(tmp_path, writer=writer, schema=schema, returned=None, format_=format_)
        operator.begin(1)
        list(operator.run([BatchStream(schema, [pa.record_batch([pa.array([], type_)], schema=schema)])]))
        assert operator.commit().files == (writer == "one")


def test_a_csv_files_names_alone_are_compared(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "old.csv").write_text("n,s\n1.5,x\n")
    epoch(write(tmp_path, mode=WriteMode.INSERT, format_="csv"), 1, 1)
    (tmp_path / "t" / "older.csv").write_text("n,t\n1,x\n")
    with pytest.raises(ExecutionError, match=r"older\.csv has other columns .*'t' in the file and 's' in the plan"):
        epoch(write(tmp_path, mode=WriteMode.INSERT, format_="csv"), 1, 1)


def test_what_other_programs_wrote_is_added_to_where_its_columns_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    duckdb.sql(f"COPY (SELECT 7::BIGINT n, 'x' s) TO '{tmp_path}/t/by duckdb.parquet'")
    stored = pa.table({"n": [8], "s": pa.array(["y"]).dictionary_encode()})
    pq.write_table(stored, tmp_path / "t" / "a dictionary.parquet")
    (tmp_path / "t" / "README.txt").write_text("what this is")
    epoch(write(tmp_path, mode=WriteMode.INSERT), 1, 1)
    assert sorted(values_in(tmp_path / "t")) == [1, 7, 8]


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_added(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "odd.parquet").write_text("no Parquet")
    with pytest.raises(ExecutionError, match=r"odd\.parquet cannot be read"):
        epoch(write(tmp_path, mode=WriteMode.INSERT), 1, 1)
    assert everything(tmp_path / "t") == ["odd.parquet"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_task_writes_in_all_its_epochs_is_bounded(tmp_path: Path, restarts: bool) -> None:
    first = epoch(write(tmp_path, writer="other"), 1, 1).bytes
    operator = write(tmp_path, quota=first * 3 // 2)
    epoch(operator, 1, 1)
    if restarts:
        operator = write(tmp_path, quota=first * 3 // 2)
        epoch(operator, 1, 1)  # computed again: its file counts once
        operator = write(tmp_path, quota=first * 3 // 2)
    with pytest.raises(Exhausted, match=r"table 't': epoch 2 .* write_quota") as error:
        epoch(operator, 2, 2)
    assert error.value.reason == "WRITE_QUOTA"
    assert sorted(values_in(tmp_path / "t")) == [1, 1]
    assert everything(tmp_path / "t") == shown(tmp_path / "t")


def test_an_epoch_beyond_the_quota_is_not_written_to_its_end(tmp_path: Path) -> None:
    operator = write(tmp_path, quota=1)
    operator.begin(1)
    stream = WatchedStream(SCHEMA, rows(*range(65_536 * 4)).to_batches(max_chunksize=65_536))
    with pytest.raises(Exhausted):
        list(operator.run([stream]))
    assert stream.pulled <= 2
    assert everything(tmp_path) == []
