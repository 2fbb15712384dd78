"""Files that are not what they say: refused, or read as they are; never a crash, never memory that is not theirs."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import InstancePool, InstanceSettings
from tidegate.operators.sources import page_checks
from tidegate.operators.sources.file_relations import FileSource
from tidegate.proto.errors import SplitError

from .. import forked
from ..searching import SEARCHES
from . import damaged
from .data import column, pieces_of, rows_of, scanned

SEEDS = 2_000 if SEARCHES else 6
SEEDS_OF_A_PROCESS = 500
FIRST = int(os.environ.get("FIRST_SEED", "0"))
TEXT = [column("s", pa.string())]


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, SEEDS_OF_A_PROCESS))
@pytest.mark.parametrize("kind", damaged.WRITERS)
def test_damaged_files_neither_crash_nor_show_other_memory(kind: str, first: int, tmp_path: Path) -> None:
    seeds = min(SEEDS, SEEDS_OF_A_PROCESS)
    ended = forked.run("tests.operators.damaged", tmp_path, kind, first, seeds)
    assert ended.returncode == 0, (
        f"seed {ended.stdout.split()[-1:]}, status {ended.returncode}: {ended.stderr[-2_000:]}"
    )


def with_offset(path: Path, table: pa.Table, offset: int, value: int) -> Path:
    """An Arrow file in which an offset of 32 bits, found by its value, is another one."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    at = data.index(offset.to_bytes(4, "little"))
    path.write_bytes(data[:at] + value.to_bytes(4, "little") + data[at + 4 :])
    return path


LONG = "x" * 0x31313  # its end stands nowhere else in the file
INSIDE = [
    (pa.table({"s": ["", LONG, "end"]}), TEXT),
    (pa.table({"s": [["", LONG, "end"]]}), [column("s", pa.list_(pa.string()))]),
    (pa.table({"s": [{"a": ""}, {"a": LONG}, {"a": "end"}]}), [column("s", pa.struct([("a", pa.string())]))]),
    (pa.table({"s": pa.array(["", LONG, "end"]).dictionary_encode()}), TEXT),
]


@pytest.mark.parametrize(("table", "columns"), INSIDE, ids=["text", "list", "struct", "dictionary"])
def test_offsets_inside_that_lead_past_the_buffer_are_refused(
    table: pa.Table, columns: list[object], root: Path
) -> None:
    path = with_offset(root / "f.arrow", table, len(LONG), 0x7FFFFFF0)
    with pytest.raises(SplitError, match="cannot be read as arrow") as refused:
        scanned(columns, pieces_of(path, root, columns))  # type: ignore[arg-type]
    assert refused.value.reason == "FILE_UNREADABLE"


@pytest.mark.parametrize("size", [0, 2, 4])
def test_lists_of_another_fixed_size_are_refused(size: int, root: Path) -> None:
    """A damaged size is another type of the column."""
    lists = pa.array([["a"] * size], pa.list_(pa.string(), size))
    with pa.ipc.new_file(root / "f.arrow", pa.schema([("s", lists.type)])) as writer:
        writer.write_batch(pa.record_batch([lists], ["s"]))
    columns = [column("s", pa.list_(pa.string(), 3))]
    with pytest.raises(SplitError, match=rf"fixed_size_list<\w+: string>\[{size}\]"):
        scanned(columns, pieces_of(root / "f.arrow", root, columns))


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    data = path.read_bytes()
    assert data.count(old) >= 1
    path.write_bytes(data.replace(old, new))
    return path


@pytest.mark.parametrize("name", ["f.parquet", "f.orc", "f.arrow", "f.json"])
def test_text_that_is_not_utf8_is_refused(name: str, root: Path) -> None:
    table = pa.table({"s": ["first", "marked", "last"]})
    match name:
        case "f.parquet":
            pq.write_table(table, root / name, compression="none", write_statistics=False)
        case "f.orc":
            orc.write_table(table, root / name)
        case "f.json":
            (root / name).write_text('{"s": "first"}\n{"s": "marked"}\n')
        case _:
            with pa.ipc.new_file(root / name, table.schema) as writer:
                writer.write_table(table)
    replaced(root / name, b"marked", b"m\xffrked")
    with pytest.raises(SplitError) as refused:
        scanned(TEXT, pieces_of(root / name, root, TEXT))
    assert refused.value.reason == "FILE_UNREADABLE"


def test_pages_that_do_not_have_their_checksums_are_refused(root: Path) -> None:
    table = pa.table({"s": ["first", "marked", "last"]})
    pq.write_table(table, root / "f.parquet", compression="none", write_statistics=False, write_page_checksum=True)
    replaced(root / "f.parquet", b"marked", b"MARKED")
    with pytest.raises(SplitError, match="CRC checksum verification failed") as refused:
        scanned(TEXT, pieces_of(root / "f.parquet", root, TEXT))
    assert refused.value.reason == "FILE_UNREADABLE"


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_names_of_columns_that_are_not_utf8_are_refused(ending: str, root: Path) -> None:
    table = pa.table({"s": ["a"], "marked": ["b"]})
    make = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
    with make(root / f"f.{ending}", table.schema) as writer:
        writer.write_table(table)
    replaced(root / f"f.{ending}", b"marked", b"m\xffrked")
    with pytest.raises(SplitError, match="is not UTF-8") as refused:
        scanned(TEXT, pieces_of(root / f"f.{ending}", root, TEXT))
    assert refused.value.reason == "FILE_UNREADABLE"


def with_checksums(path: Path, rows: int = 3, **options: object) -> Path:
    table = pa.table({"s": [f"first{n}" for n in range(rows - 1)] + ["marked"], "n": list(range(rows))})
    pq.write_table(
        table, path, compression="none", write_statistics=False, use_dictionary=False, row_group_size=50_000,
        write_page_checksum=True, **options,
    )  # fmt: skip
    return path


def by_duckdb(sql: str, path: Path, root: Path) -> list[dict[str, object]]:
    pool = InstancePool(root.parent / "spill")
    instance = pool.take(InstanceSettings(memory_limit=1 << 28, roots=(str(root),)))
    files = [FileSource(source="t", relation="t", columns=(column("s", pa.string()),))]
    fragment = Fragment(sql, schema=pa.schema([("s", pa.string())]), instance=instance, files=files, plan_path="read")
    fragment.assign("t", pieces_of(path, root, TEXT))
    try:
        return rows_of(fragment.run([]))
    finally:
        fragment.close()
        pool.close()


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0", "data_page_size": 64}])
@pytest.mark.parametrize("rows", [3, 200_000])
def test_checksums_of_what_duckdb_has_read_are_verified(options: dict[str, object], rows: int, root: Path) -> None:
    path = with_checksums(root / "f.parquet", rows, **options)
    assert by_duckdb("SELECT max(c0) AS s FROM t", path, root) == [{"s": "marked"}]
    replaced(path, b"marked", b"MARKED")
    for _ in range(2):  # what was verified is remembered, what was not is not
        with pytest.raises(SplitError, match=r"of column 's' at byte .* does not match its checksum") as refused:
            by_duckdb("SELECT max(c0) AS s FROM t", path, root)
        assert refused.value.reason == "FILE_UNREADABLE"


def test_only_columns_that_are_read_are_verified_and_nothing_behind_a_limit(root: Path) -> None:
    path = replaced(with_checksums(root / "f.parquet", 200_000), (77).to_bytes(8, "little"), b"\xff" * 8)
    assert by_duckdb("SELECT max(c0) AS s FROM t", path, root) == [{"s": "marked"}]
    replaced(path, b"marked", b"MARKED")
    assert len(by_duckdb("SELECT c0 AS s FROM t LIMIT 3", path, root)) == 3


def test_a_file_is_verified_once_and_again_when_it_is_another(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, checked = with_checksums(root / "f.parquet"), []
    real = page_checks.check_pages
    monkeypatch.setattr(page_checks, "check_pages", lambda *pages: (checked.append(pages), real(*pages))[1])
    for _ in range(3):
        by_duckdb("SELECT c0 AS s FROM t", path, root)
    assert len(checked) == 1
    with_checksums(path, 4)
    by_duckdb("SELECT c0 AS s FROM t", path, root)
    assert len(checked) == 2


def test_an_orc_file_whose_stripes_have_other_rows_than_its_footer_says_is_refused(root: Path) -> None:
    path = root / "f.orc"
    for seed in range(3_000):  # one of these changes the number of rows of a stripe
        orc.write_table(pa.table({"s": ["a"] * 300}), path)
        data = damaged.damaged(path.read_bytes(), random.Random(seed))
        path.write_bytes(data)
        with suppress(pa.ArrowException, OSError):
            file = orc.ORCFile(path)
            if sum(file.read_stripe(i).num_rows for i in range(file.nstripes)) != file.nrows:
                break
    with pytest.raises(SplitError, match="footer says") as refused:
        scanned(TEXT, pieces_of(path, root, TEXT))
    assert refused.value.reason == "FILE_UNREADABLE"
