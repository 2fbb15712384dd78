"""Parquet columns that are read as dictionaries have the rows that the file has."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.column import Column
from tidegate.operators.sources.formats import parquet, parquet_widths
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

ROWS = 5_000
#: The bytes of a page's header that say that it has three, or two, values of a dictionary.
THREE, TWO = b"\x4c\x15\x06", b"\x4c\x15\x04"
#: The bytes of a footer that say that pages of values are plain, or coded by the dictionary.
PLAIN, CODED = b"\x15\x00\x15\x00\x15", b"\x15\x00\x15\x10\x15"


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns that are read as dictionaries, for each time that a file is opened so."""
    asked: list[list[str]] = []
    opened = pq.ParquetFile

    def noted(*arguments: object, read_dictionary: Sequence[str] | None = None, **options: object) -> pq.ParquetFile:
        if read_dictionary:
            asked.append(list(read_dictionary))
        return opened(*arguments, read_dictionary=read_dictionary, **options)

    monkeypatch.setattr(parquet.pq, "ParquetFile", noted)
    return asked


def columns_of(table: pa.Table) -> list[Column]:
    return [column(field.name, field.type) for field in table.schema]


def read(path: Path, root: Path, columns: Sequence[Column], rows: tuple[int, int] | None = None) -> pa.Table:
    scan = Scan("t", columns)
    scan.assign("t", pieces_of(path, root, columns, rows))
    table = pa.Table.from_batches(list(scan.run(())), scan.schema)
    table.validate(full=True)
    return table


def repeated(*values: object, rows: int = ROWS, type_: pa.DataType | None = None) -> pa.Array:
    array = pa.array(values, type_)
    return pa.concat_arrays([array] * (rows // len(array) + 1)).slice(0, rows)


FEW = pa.table({"s": repeated("aa", "ab", "bb")})
NESTED = pa.table({
    "few": repeated("слово", None, "λόγος", ""),
    "all": [f"единственный {n}" for n in range(ROWS)],
    "bytes": repeated(b"\xff", b"\x00", None),
    "large": repeated("a", "b", type_=pa.large_string()),
    "dotted.name": repeated("c", "d"),
    "dotted": repeated({"name": "e"}, {"name": "f"}, None),
    "lists": repeated(["g", "h"], [], None),
    "category": repeated("i", "j").dictionary_encode(),
    "none": pa.nulls(ROWS, pa.string()),
    "number": pa.array(range(ROWS)),
})  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"data_page_version": "2.0", "data_page_size": 500, "compression": "zstd"},
        {"row_group_size": 4_500},
        {"version": "1.0", "store_schema": False, "compression": "none", "write_page_checksum": True},
    ],
)
def test_texts_and_bytes_that_stand_in_many_rows_are_read_as_dictionaries(
    options: dict[str, object], root: Path, chosen: list[list[str]]
) -> None:
    pq.write_table(NESTED, root / "f.parquet", **options)
    columns = columns_of(NESTED.set_column(7, "category", NESTED["category"].cast(pa.string())))
    table = read(root / "f.parquet", root, columns)
    assert table.to_pylist() == NESTED.to_pylist()
    assert {"few", "bytes"} <= set(chosen[0]) <= {"few", "bytes", "large", "category", "none"}
    assert read(root / "f.parquet", root, columns, (1_234, 4_600)).equals(table.slice(1_234, 4_600 - 1_234))


def test_a_column_of_which_some_pages_are_plain_is_read_as_it_is(root: Path, chosen: list[list[str]]) -> None:
    table = pa.table({"s": [f"value {n % 4_000}" for n in range(20_000)]})
    pq.write_table(table, root / "f.parquet", dictionary_pagesize_limit=1_000, data_page_size=1_000)
    assert read(root / "f.parquet", root, columns_of(table)).equals(table)
    assert not chosen


def test_a_footer_that_calls_plain_pages_coded_is_not_believed(root: Path, chosen: list[list[str]]) -> None:
    table = pa.table({"s": [f"value {n % 4_000}" for n in range(20_000)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, dictionary_pagesize_limit=1_000, data_page_size=1_000, compression="none")
    data = sink.getvalue()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert PLAIN in data[footer:]
    (root / "f.parquet").write_bytes(data[:footer] + data[footer:].replace(PLAIN, CODED))
    assert read(root / "f.parquet", root, columns_of(table)).equals(table)
    assert not chosen


def damaged(path: Path, old: bytes, new: bytes) -> Path:
    pq.write_table(FEW, path, compression="none", write_statistics=False)
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return path


def test_values_that_are_twice_in_a_dictionary_do_not_shift_the_others(root: Path, chosen: list[list[str]]) -> None:
    path = damaged(root / "f.parquet", b"\x02\0\0\0ab", b"\x02\0\0\0aa")
    assert read(path, root, columns_of(FEW)).equals(pa.table({"s": repeated("aa", "aa", "bb")}))
    assert chosen == [["s"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [(THREE, TWO), (b"\x02\0\0\0ab", b"\x02\0\0\0a\xff"), (b"\x02\0\0\0bb", b"\xff\xff\xff\x7fbb")],
    ids=["a place outside of the dictionary", "no UTF-8", "a length beyond the page"],
)
def test_damaged_dictionaries_are_refused(old: bytes, new: bytes, root: Path) -> None:
    path = damaged(root / "f.parquet", old, new)
    with pytest.raises(SplitError) as refused:
        read(path, root, columns_of(FEW))
    assert refused.value.reason == "FILE_UNREADABLE"


def test_dictionaries_that_take_much_or_are_hardly_used_are_not_chosen(root: Path, chosen: list[list[str]]) -> None:
    path = root / "f.parquet"
    table = pa.table(
        {"twice": [f"{n // 2}" for n in range(20_000)], "seldom": [f"{n * 2 // 3}" for n in range(20_000)]}
    )
    pq.write_table(table, path)
    assert read(path, root, columns_of(table)).equals(table)
    assert chosen == [["twice"]]
    long = pa.table({name: repeated(*(f"{n}{name}" + "x" * (3 << 20) for n in range(2)), rows=5) for name in "abc"})
    pq.write_table(long, path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parquet_widths, "_WORTH_ROWS", 1)
        del chosen[:]
        assert read(path, root, columns_of(long)).equals(long)
    assert all(len(names) == 1 for names in chosen)


def test_batches_without_a_value_are_read_before_and_behind_others(root: Path) -> None:
    nothing = pa.nulls(70_000, pa.string())
    for parts in ([nothing, FEW["s"].chunk(0)], [FEW["s"].chunk(0), nothing], [nothing]):
        table = pa.table({"s": pa.concat_arrays(parts)})
        pq.write_table(table, root / "f.parquet")
        assert read(root / "f.parquet", root, columns_of(table)).combine_chunks().equals(table)


def test_files_of_duckdb_are_read_as_dictionaries(root: Path, chosen: list[list[str]]) -> None:
    for version in ("V1", "V2"):
        with duckdb.connect() as connection:
            connection.register("few", NESTED.select(["few", "all", "number"]))
            connection.execute(f"COPY (FROM few) TO '{root / 'f.parquet'}' (FORMAT parquet, PARQUET_VERSION {version})")
        table = NESTED.select(["few", "all", "number"])
        assert read(root / "f.parquet", root, columns_of(table)).equals(table)
    assert chosen


TEXTS = st.sampled_from(["", "a", "é", "слово", "漢字", "😀", None])


@given(
    st.lists(TEXTS, min_size=1, max_size=12),
    st.integers(1, 700),
    st.sampled_from([1, 100, 1_000_000]),
    st.sampled_from([50, 3_000, 1_000_000]),
    st.sampled_from(["1.0", "2.0"]),
)
def test_rows_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], rows: int, page: int, group: int, version: str
) -> None:
    root = tmp_path_factory.getbasetemp()
    table = pa.table({"s": repeated(*texts, rows=rows, type_=pa.string()), "n": range(rows)})
    pq.write_table(table, root / "f.parquet", data_page_size=page, row_group_size=group, data_page_version=version)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parquet_widths, "_WORTH_ROWS", 1)
        patched.setattr(parquet_widths, "_TIMES_USED", 1)
        assert read(root / "f.parquet", root, columns_of(table)).equals(table)
