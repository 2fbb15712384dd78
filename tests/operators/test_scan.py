from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from tidegate.operators.core.column import Column
from tidegate.operators.core.operator import Operator
from tidegate.operators.core.piece import FilePiece, InlinePiece, KeyRange
from tidegate.operators.core.row_reader import reader_of
from tidegate.operators.sources.formats import text_blocks
from tidegate.operators.sources.scan import Scan
from tidegate.operators.sources.split_pieces import expand, open_pieces
from tidegate.operators.testing import CHECKS, Case
from tidegate.proto.errors import ExecutionError, SplitError
from tidegate.proto.values import FileSplit, MissingColumns

from .data import column, pieces_of, scanned, write

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int64()),
        "s": pa.array(["a", "", None]),
        "d": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-2.25")], pa.decimal128(9, 2)),
        "t": pa.array(
            [dt.datetime.fromisoformat("2024-01-02T03:04:05.000006"), None, dt.datetime.fromisoformat("1969-12-31")],
            pa.timestamp("us"),
        ),
        "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
        "f": pa.array([1.5, None, -0.25]),
        "b": pa.array([True, None, False]),
    }
)
COLUMNS = [column(field.name, field.type) for field in ROWS.schema]


def write_arrow(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_arrow_stream(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_json(path: Path, table: pa.Table) -> None:
    lines = []
    for row in table.to_pylist():
        fields = []
        for key, value in row.items():
            if value is None:
                text = "null"
            elif isinstance(value, bool):
                text = str(value).lower()
            elif isinstance(value, int | float | decimal.Decimal):
                text = str(value)
            else:
                text = f'"{value}"'
            fields.append(f'"{key}": {text}')
        lines.append("{" + ", ".join(fields) + "}")
    path.write_text("\n".join(lines))


WRITERS: dict[str, Callable[[Path, pa.Table], object]] = {
    "f.parquet": write,
    "f.arrow": write_arrow,
    "f.arrows": write_arrow_stream,
    "f.orc": lambda path, table: orc.write_table(table, path),
    "f.csv": lambda path, table: pyarrow.csv.write_csv(table, path),
    "f.json": write_json,
}
formats = pytest.mark.parametrize("name", WRITERS)


def written(name: str, root: Path, table: pa.Table = ROWS) -> Path:
    WRITERS[name](root / name, table)
    return root / name


@formats
def test_every_format_gives_the_plans_rows_and_types(name: str, root: Path) -> None:
    assert scanned(COLUMNS, pieces_of(written(name, root), root)) == ROWS.to_pylist()


def test_a_parquet_file_without_rows_has_none(root: Path) -> None:
    """Arrow writes a chunk of no rows as a row group, whose columns have no pages."""
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.string()))])
    table = pa.table([pa.array([], field.type) for field in schema], schema=schema)
    pq.write_table(table, root / "none.parquet")
    columns = [column(field.name, field.type) for field in schema]
    assert scanned(columns, pieces_of(root / "none.parquet", root, columns)) == []


@formats
def test_columns_go_by_name_in_the_plans_order_and_without_regard_to_case(name: str, root: Path) -> None:
    wanted = [column("B", pa.bool_()), column("i", pa.int64())]
    rows = scanned(wanted, pieces_of(written(name, root), root))
    assert rows == [{"B": row["b"], "i": row["i"]} for row in ROWS.to_pylist()]


@formats
@pytest.mark.parametrize("nullable", [True, False])
def test_a_missing_column_is_an_error_that_names_it_and_those_there_are(name: str, root: Path, nullable: bool) -> None:
    (root / "hour=1").mkdir()
    pieces = pieces_of(written(name, root / "hour=1"), root)
    names = ", ".join(map(repr, (*ROWS.column_names, "hour")))
    with pytest.raises(SplitError, match=rf"{name} .*column 'none' is missing; there are: {names}") as refused:
        scanned([column("none", pa.int8(), nullable=nullable)], pieces)
    assert refused.value.reason == "MISSING_COLUMN"


@formats
def test_a_missing_column_is_null_where_the_split_says_so_and_none_is_required(name: str, root: Path) -> None:
    pieces = pieces_of(written(name, root), root, missing_columns=MissingColumns.NULL)
    assert scanned([column("none", pa.int8())], pieces) == [{"none": None}] * 3
    with pytest.raises(SplitError, match=rf"{name} .*required column 'none' is (missing|null)"):
        scanned([column("none", pa.int8(), nullable=False)], pieces)


@pytest.mark.parametrize(
    "rows", ['{"a": 1}\n{"b": null}\n', '{"a": 1}\n{"é": {"b": 2}, "b": 2}', '{"b": 1}\n{"a": 1}\n']
)
def test_an_object_of_json_need_not_have_what_another_one_has(rows: str, root: Path) -> None:
    (root / "f.json").write_text(rows)
    assert len(scanned([column("b", pa.int64())], pieces_of(root / "f.json", root))) == 2


@pytest.mark.parametrize("rows", ['{"a": 1}\n{"c": {"b": 1}}\n{"a": "\\"b\\""}', '{"a": "b"}\n', '{"a": {"b": 1}}\n\n'])
def test_what_is_no_key_of_an_object_of_json_is_no_column(rows: str, root: Path) -> None:
    (root / "f.json").write_text(rows)
    with pytest.raises(SplitError, match="column 'b' is missing; there are: 'a'"):
        scanned([column("b", pa.int64())], pieces_of(root / "f.json", root))


def test_a_key_in_a_later_block_of_json_is_a_column(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    (root / "f.json").write_text('{"a": 1}\n' * 20 + '{"late": 7}\n')
    rows_read = scanned([column("late", pa.int64())], pieces_of(root / "f.json", root))
    assert rows_read == [{"late": None}] * 20 + [{"late": 7}]


def test_a_json_file_without_objects_lacks_nothing(root: Path) -> None:
    (root / "f.json").write_text("\n")
    assert scanned([column("b", pa.int64())], pieces_of(root / "f.json", root)) == []


def inline(*batches: pa.RecordBatch) -> InlinePiece:
    rows = sum(batch.num_rows for batch in batches)
    return InlinePiece(
        read=reader_of(batches),
        schema=batches[0].schema,
        origin="split 7 of source 't'",
        rows=(0, rows),
        row_count=rows,
    )


@formats
def test_no_columns_still_have_rows(name: str, root: Path) -> None:
    assert len(scanned([], pieces_of(written(name, root), root))) == 3


@formats
def test_a_null_in_a_required_column_names_file_column_and_row(name: str, root: Path) -> None:
    pieces = pieces_of(written(name, root), root)
    with pytest.raises(SplitError, match=rf"{name} \(split 1 of source 't'\): .*'i' is null, row 1"):
        scanned([column("i", pa.int64(), nullable=False)], pieces)


def test_a_null_where_the_type_of_a_column_requires_a_value_is_refused_though_the_rows_have_this_type() -> None:
    for type_, children in (
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), [pa.array([1, None, 3])]),
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), [pa.array([1, None, 3])]),
    ):
        starts = [pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]] if pa.types.is_list(type_) else []
        rows = pa.record_batch([pa.Array.from_buffers(type_, 3, [None, *starts], 0, children=children)], names=["x"])
        with pytest.raises(SplitError, match=r"column 'x', row 1 .* is not a value of type") as refused:
            scanned([column("x", type_)], [inline(rows)])
        assert refused.value.reason == "COLUMN_VALUE"


@formats
def test_a_value_that_does_not_fit_names_file_and_value(name: str, root: Path) -> None:
    pieces = pieces_of(written(name, root, pa.table({"i": [1, 300]})), root)
    with pytest.raises(SplitError, match=rf"{name} .*300"):
        scanned([column("i", pa.int8())], pieces)


@formats
def test_without_rows_there_is_no_batch(name: str, root: Path) -> None:
    assert scanned(COLUMNS, pieces_of(written(name, root, ROWS.slice(0, 0)), root)) == []


@formats
@pytest.mark.parametrize("damage", ["cut short", "other content"])
def test_a_corrupt_file_is_named(name: str, damage: str, root: Path) -> None:
    path = written(name, root)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 7] + b'"' if damage == "cut short" else b'\xff\x00{"' * 9)
    with pytest.raises(SplitError, match=name):
        scanned([*COLUMNS, column("x", pa.int64(), nullable=False)], pieces_of(path, root))


@formats
def test_a_file_that_changed_or_went_since_it_was_accepted_is_named(name: str, root: Path) -> None:
    path = written(name, root)
    pieces = pieces_of(path, root)
    written(name, root, ROWS.slice(0, 2))
    with pytest.raises(SplitError, match=f"{name} .*changed"):
        scanned(COLUMNS, pieces)
    path.unlink()
    with pytest.raises(SplitError, match=f"{name} .*any more"):
        scanned(COLUMNS, pieces)


@pytest.mark.parametrize("name", ["f.parquet", "f.arrow"])
@pytest.mark.parametrize("rows", [(0, 0), (0, 1), (1, 3), (2, 3), (0, 3)])
def test_a_range_of_rows(name: str, rows: tuple[int, int], root: Path) -> None:
    path = written(name, root)
    assert scanned(COLUMNS, pieces_of(path, root, rows=rows)) == ROWS.to_pylist()[slice(*rows)]


def test_record_batches_of_an_arrow_file(root: Path) -> None:
    split = FileSplit(path=str(written("f.arrow", root)), row_groups=(1,))
    pieces = open_pieces(expand(split, [str(root)], "split 1"))
    assert scanned(COLUMNS, pieces) == ROWS.to_pylist()[2:]


def test_a_range_of_an_arrow_stream_is_refused(root: Path) -> None:
    with pytest.raises(SplitError, match="read the whole file"):
        pieces_of(written("f.arrows", root), root, rows=(0, 1))


def test_inline_rows_are_matched_and_cast_too(root: Path) -> None:
    table = pa.table({"X": pa.array(["a", "b", "a"]).dictionary_encode(), "y": [1, 2, 3]})
    piece = inline(*table.to_batches())
    wanted = [column("y", pa.int16(), nullable=False), column("x", pa.string())]
    assert scanned(wanted, [piece]) == [{"y": 1, "x": "a"}, {"y": 2, "x": "b"}, {"y": 3, "x": "a"}]
    with pytest.raises(SplitError, match=r"split 7 of source 't'.*'z' is missing"):
        scanned([column("z", pa.int8(), nullable=False)], [piece])


def test_pieces_come_in_order_and_keep_their_folders_values(root: Path) -> None:
    write(root / "y=2024" / "f.parquet", pa.table({"x": [1]}))
    write(root / "y=2023" / "f.parquet", pa.table({"x": [2]}))
    wanted = [column("x", pa.int64()), column("Y", pa.int16(), nullable=False)]
    assert scanned(wanted, pieces_of(root, root)) == [{"x": 2, "Y": 2023}, {"x": 1, "Y": 2024}]


@pytest.mark.parametrize(
    ("folder", "type_", "value"),
    [
        ("v=-5", pa.int8(), -5),
        ("v=2024-02-29", pa.date32(), dt.date(2024, 2, 29)),
        ("v=1.50", pa.decimal128(5, 2), decimal.Decimal("1.50")),
        ("v=true", pa.bool_(), True),
        ("v=2024-01-01 10%3A00%3A00", pa.timestamp("us"), dt.datetime.fromisoformat("2024-01-01T10:00")),
        ("v=__HIVE_DEFAULT_PARTITION__", pa.int8(), None),
        ("v=", pa.string(), ""),
    ],
)
def test_a_folders_value_has_the_plans_type(folder: str, type_: pa.DataType, value: object, root: Path) -> None:
    write(root / folder / "f.parquet", pa.table({"x": [1]}))
    assert scanned([column("v", type_)], pieces_of(root, root)) == [{"v": value}]


@pytest.mark.parametrize(
    ("folder", "type_"), [("v=300", pa.int8()), ("v=1.555", pa.decimal128(5, 2)), ("v=x", pa.bool_())]
)
def test_a_folders_value_that_does_not_fit_is_an_error(folder: str, type_: pa.DataType, root: Path) -> None:
    write(root / folder / "f.parquet", pa.table({"x": [1]}))
    with pytest.raises(SplitError, match=folder):
        scanned([column("v", type_)], pieces_of(root, root))


def test_a_files_own_column_comes_before_its_folders(root: Path) -> None:
    write(root / "v=1" / "f.parquet", pa.table({"v": [7]}))
    assert scanned([column("v", pa.int64())], pieces_of(root, root)) == [{"v": 7}]


def test_columns_that_differ_by_case_alone_are_told_apart_or_refused(root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [1], "X": [2]})), root)
    assert scanned([column("X", pa.int64()), column("x", pa.int64())], pieces) == [{"X": 2, "x": 1}]
    (root / "f.parquet").unlink()
    pieces = pieces_of(write(root / "f.parquet", pa.table({"xy": [1], "XY": [2]})), root)
    with pytest.raises(SplitError, match="more than one column is called 'Xy'"):
        scanned([column("Xy", pa.int64())], pieces)


def test_a_column_whose_name_has_a_dot_is_not_a_nested_one(root: Path) -> None:
    table = pa.table({"a": [{"b": 1}], "a.b": [2]})
    pieces = pieces_of(write(root / "f.parquet", table), root)
    assert scanned([column("a.b", pa.int64())], pieces) == [{"a.b": 2}]


def test_csv_is_read_by_its_header_and_the_plans_types(root: Path) -> None:
    (root / "f.csv").write_text('\ufeffzip,"na,me",x\n01234,"a\nb",1\n,"",\n')
    wanted = [column("zip", pa.string()), column("na,me", pa.string()), column("x", pa.float64())]
    rows = scanned(wanted, pieces_of(root / "f.csv", root))
    assert rows == [{"zip": "01234", "na,me": "a\nb", "x": 1.0}, {"zip": None, "na,me": "", "x": None}]


def test_csv_keeps_the_empty_lines_of_a_single_column(root: Path) -> None:
    (root / "f.csv").write_text("x\n1\n\n3\n")
    assert scanned([column("x", pa.int64())], pieces_of(root / "f.csv", root)) == [{"x": 1}, {"x": None}, {"x": 3}]


@pytest.mark.parametrize("text", ['1,"a\n2,b\n3,c\n', '1,a\n2,"b', '1,a\n2,"', '1,"a""\n2,b'])
def test_a_quote_that_nothing_closes_swallows_no_rows_in_silence(text: str, root: Path) -> None:
    (root / "f.csv").write_text(f"x,y\n{text}")
    with pytest.raises(SplitError, match="a quote is not closed"):
        scanned([column("x", pa.int64()), column("y", pa.string())], pieces_of(root / "f.csv", root))


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_the_end_of_a_file_may_lie_anywhere_in_a_block(end: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 100)
    for size in range(60, 240):
        text = "x,y\n" + "1,abcdefgh\n" * (size // 11) + "2," + "z" * (size % 11) + end
        (root / "f.csv").write_text(text, newline="")
        rows = scanned([column("x", pa.int64())], pieces_of(root / "f.csv", root))
        assert rows == [{"x": 1}] * (size // 11) + [{"x": 2}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('5" pipe\n"a"', ['5" pipe', "a"]),
        ('"a\nb"\n', ["a\nb"]),
        ('a""\r\n""\r\n', ['a""', ""]),
        ("a\n\n", ["a", None]),
        ("a\rb\r", ["a", "b"]),
        ("a", ["a"]),
        ("\n", [None]),
    ],
)
def test_other_quotes_and_ends_of_lines_are_as_they_were(text: str, expected: list[str | None], root: Path) -> None:
    (root / "f.csv").write_text(f"y\n{text}", newline="")
    assert [row["y"] for row in scanned([column("y", pa.string())], pieces_of(root / "f.csv", root))] == expected


@pytest.mark.parametrize("before", ["", "1\n"])
@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_texts_may_be_long(before: str, size: int, root: Path) -> None:
    (root / "f.csv").write_text(f"x\n{before}{'y' * size}\n2\n")
    (root / "f.json").write_text("".join(f'{{"x": "{line}"}}\n' for line in (*before.split(), "y" * size, "2")))
    for name in ("f.csv", "f.json"):
        rows = scanned([column("x", pa.string())], pieces_of(root / name, root))
        assert [len(row["x"]) for row in rows] == [*map(len, before.split()), size, 1]


@pytest.mark.parametrize("before", ["", "1\n"])
@pytest.mark.parametrize("name", ["f.csv", "f.json"])
def test_a_row_of_text_may_have_a_sixteenth_of_the_limit(name: str, before: str, root: Path) -> None:
    lines = [*before.split(), "y" * (20 << 20), "2"]
    if name == "f.csv":
        (root / name).write_text("x\n" + "".join(f"{line}\n" for line in lines))
    else:
        (root / name).write_text("".join(f'{{"x": "{line}"}}\n' for line in lines))
    allowed, refused = (Scan("t", [column("x", pa.string())], largest=largest << 20) for largest in (512, 128))
    for scan in (allowed, refused):
        scan.assign("t", pieces_of(root / name, root))
    assert [len(text) for batch in allowed.run(()) for text in batch["x"].to_pylist()] == [len(line) for line in lines]
    wanted = f"{name} .*: a row.* is longer than 8,388,608 bytes.*at least 4,194,304 and at most 536,870,912 bytes"
    with pytest.raises(SplitError, match=wanted) as error:
        list(refused.run(()))
    assert error.value.reason == "ROW_TOO_LARGE"


_FIELDS = st.text(alphabet='ab"\n,', max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(_FIELDS, _FIELDS), min_size=1, max_size=40), size=st.integers(20, 90))
def test_csv_is_cut_where_rows_end_whatever_is_in_quotes(rows: list[tuple[str, str]], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder).resolve() / "f.csv"
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("x", "y"), *rows])
        patch.setattr(text_blocks, "BLOCK_BYTES", size)
        rows_read = scanned([column("x", pa.string()), column("y", pa.string())], pieces_of(path, path.parent))
    assert [(row["x"], row["y"]) for row in rows_read] == rows


def test_an_error_in_a_later_block_counts_the_rows_before_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    (root / "f.csv").write_text("x,y\n" + "1,abcdefgh\n" * 50 + "1,a,b\n" + "1,a\n" * 50)
    (root / "f.json").write_text('{"x": 1}\n' * 50 + '{"x": }\n' + '{"x": 1}\n' * 50)
    for name, sentence in (("f.csv", "Row #52: Expected 2 columns, got 3: 1,a,b"), ("f.json", "in row 50")):
        with pytest.raises(SplitError, match=sentence):
            scanned([column("x", pa.int64())], pieces_of(root / name, root))


def test_objects_without_values_are_decoded_a_few_at_a_time(root: Path) -> None:
    (root / "f.json").write_text(json.dumps({f"c{number}": 1 for number in range(200)}) + "\n" + "{}\n" * 100_000)
    scan = Scan("t", [column(f"c{number}", pa.int64()) for number in range(200)])
    scan.assign("t", pieces_of(root / "f.json", root))
    before, rows = pa.total_allocated_bytes(), 0
    for batch in scan.run(()):
        assert pa.total_allocated_bytes() - before <= 64 << 20
        rows += batch.num_rows
    assert rows == 100_001


def test_many_objects_in_one_line_are_refused_where_they_take_more_than_the_limit(root: Path) -> None:
    (root / "f.json").write_text(json.dumps({f"c{number}": 1 for number in range(200)}) + "\n" + "{}" * 100_000)
    scan = Scan("t", [column(f"c{number}", pa.int64()) for number in range(200)], largest=64 << 20)
    scan.assign("t", pieces_of(root / "f.json", root))
    with pytest.raises(SplitError, match="so many objects") as refused:
        list(scan.run(()))
    assert refused.value.reason == "ROW_TOO_LARGE"


def test_a_long_first_line_gives_its_keys_without_its_values(root: Path) -> None:
    items = "[" + "[]," * 200_000 + "[]]"
    (root / "f.json").write_text(f'{{"a": {items}, "b" : 7, "c": {{"d": "}}\\\\"}}}}\n')
    assert scanned([column("b", pa.int64())], pieces_of(root / "f.json", root)) == [{"b": 7}]
    with pytest.raises(SplitError, match="column 'd' is missing; there are: 'a', 'b', 'c'"):
        scanned([column("d", pa.int64())], pieces_of(root / "f.json", root))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("f.csv", "x" * 200_000, "its header line: field larger"),
        ("f.csv", "x," * 1_000_000, "its header line is longer than"),
        ("f.json", '{"x": ' + "[" * 100_000, "the first line is not JSON: maximum recursion"),
    ],
)
def test_a_first_line_that_is_none_is_said_to_be_so(name: str, content: str, sentence: str, root: Path) -> None:
    (root / name).write_text(content)
    with pytest.raises(SplitError, match=sentence):
        scanned([column("x", pa.string())], pieces_of(root / name, root))


def test_tabs_separate_tsv_and_text_may_be_compressed(root: Path) -> None:
    (root / "f.tsv.gz").write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    (root / "g.jsonl.gz").write_bytes(gzip.compress(b'{"a": 3, "b": 4}\n'))
    assert scanned([column("b", pa.int8()), column("a", pa.int8())], pieces_of(root, root)) == [
        {"b": 2, "a": 1},
        {"b": 4, "a": 3},
    ]


@pytest.mark.parametrize(
    ("ending", "codec"),
    [(".gz", "gzip"), (".GZ", "gzip"), (".bz2", "bz2"), (".zst", "zstd"), (".lz4", "lz4"), (".br", "brotli")],
)
def test_text_is_unpacked_by_the_ending_of_its_name(ending: str, codec: str, root: Path) -> None:
    for name, text in (("f.csv", b"a\n1\n"), ("g.jsonl", b'{"a": 2}\n')):
        with pa.CompressedOutputStream(str(root / f"{name}{ending}"), codec) as file:
            file.write(text)
    assert scanned([column("a", pa.int8())], pieces_of(root, root)) == [{"a": 1}, {"a": 2}]


def test_json_takes_keys_that_come_and_go_and_skips_others(root: Path) -> None:
    (root / "f.json").write_text('{"A": 1, "z": {"q": []}}\n{"b": "x"}\n\n{"A": 9223372036854775807, "b": null}\n')
    rows = scanned([column("a", pa.int64()), column("b", pa.string())], pieces_of(root / "f.json", root))
    assert rows == [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 2**63 - 1, "b": None}]


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["a", "b"], pa.large_string()), pa.string()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.string()),
        (pa.array([b"ab", b"cd"], pa.binary(2)), pa.binary()),
        (pa.array([[1], [2, 3]], pa.large_list(pa.int16())), pa.list_(pa.int64())),
        (pa.array([[1, None], None], pa.list_view(pa.int16())), pa.list_(pa.int64())),
        (pa.array([["a"], None]).cast(pa.list_(pa.dictionary(pa.int8(), pa.string()))), pa.list_(pa.string())),
        (pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int8()), ("b", pa.int8())])), pa.struct([("b", pa.int64())])),
        (pa.array([1_000, None], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1_001], pa.timestamp("ns")), pa.timestamp("ns")),
        (pa.array([1], pa.duration("ms")), pa.duration("us")),
        (pa.array([1], pa.time32("s")), pa.time64("us")),
        (pa.array([2**63 - 1]), pa.decimal128(19, 0)),
        (pa.array([2**24], pa.int32()), pa.float32()),
    ],
)
def test_types_that_hold_the_same_values_become_the_plans(array: pa.Array, type_: pa.DataType, root: Path) -> None:
    write_arrow(root / "f.arrow", pa.table({"x": array}))
    scan = Scan("t", [column("x", type_)])
    scan.assign("t", pieces_of(root / "f.arrow", root))
    (batch,) = list(scan.run(()))
    assert batch.schema.field("x").type == type_
    assert len(batch) == len(array)


@pytest.mark.parametrize(
    ("array", "type_", "value"),
    [
        (pa.array([1, 2**53 + 1]), pa.float64(), "9007199254740993"),
        (pa.array([1.0, 0.1]), pa.float32(), "0.1"),
        (pa.array([1.0, 1.5]), pa.int64(), "1.5"),
        (pa.array([1_000, 1_001], pa.timestamp("ns")), pa.timestamp("us"), "00.000001001"),
        (pa.array([decimal.Decimal("1.00"), decimal.Decimal("1.01")]), pa.decimal128(5, 1), "1.01"),
        (pa.array([b"a", b"\xff"]), pa.string(), "xff"),
        (pa.array([b"ab", b"a"]), pa.binary(2), "b'a'"),
        (
            pa.array([(0, 0, 1_000), (0, 0, 1)], pa.month_day_nano_interval()),
            pa.month_day_nano_interval(),
            "nanoseconds=1",
        ),
    ],
)
def test_a_value_that_would_change_is_named_with_its_row(
    array: pa.Array, type_: pa.DataType, value: str, root: Path
) -> None:
    write_arrow(root / "f.arrow", pa.table({"x": array}))
    with pytest.raises(SplitError, match=rf"f\.arrow .*'x', row 1 .*{value}"):
        scanned([column("x", type_)], pieces_of(root / "f.arrow", root))


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([1.5]), pa.decimal128(5, 2)),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([dt.date(2024, 1, 1)]), pa.timestamp("us")),
        (pa.array([True]), pa.int8()),
        (pa.array([[1.5]]), pa.list_(pa.float32())),
    ],
)
def test_a_cast_that_could_not_be_lossless_is_refused_by_type(array: pa.Array, type_: pa.DataType, root: Path) -> None:
    write_arrow(root / "f.arrow", pa.table({"x": array}))
    with pytest.raises(SplitError, match="no lossless cast"):
        scanned([column("x", type_)], pieces_of(root / "f.arrow", root))


def test_an_interrupt_stops_a_scan(root: Path) -> None:
    scan = Scan("t", [column("x", pa.int64())])
    scan.assign("t", pieces_of(write(root / "f.parquet", pa.table({"x": np.arange(200_000)})), root))
    batches = scan.run(())
    next(batches)
    scan.interrupt()
    with pytest.raises(ExecutionError, match="interrupted"):
        next(batches)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_scan_conforms(check: Callable[[Case], None], root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": np.arange(150_000)}), row_group_size=50_000), root)
    columns: list[Column] = [column("x", pa.int64())]

    def assign(operator: Operator) -> None:
        assert isinstance(operator, Scan)
        operator.assign("t", pieces)

    check(Case(make=lambda: Scan("t", columns), epochs=[[], []], before=assign))


def test_pieces_of_one_file_that_continue_each_other_are_read_in_one_go(root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": np.arange(250_000)}), row_group_size=100_000)
    pieces = pieces_of(path, root)
    assert [piece.row_count for piece in pieces if isinstance(piece, FilePiece)] == [100_000, 100_000, 50_000]
    assert scanned([column("x", pa.int64())], pieces[1:]) == [{"x": x} for x in range(100_000, 250_000)]
    assert pq.read_metadata(path).num_row_groups == 3


REQUIRED = pa.field("x", pa.int64(), nullable=False)
NULLS_INSIDE = {
    "a list": pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([1, None], pa.int64()), type=pa.list_(REQUIRED)
    ),
    "a struct": pa.StructArray.from_arrays([pa.array([1, None], pa.int64())], fields=[REQUIRED]),
    "a map": pa.MapArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), pa.array([1, None], pa.int64()),
        type=pa.map_(pa.string(), pa.field("x", pa.int64(), nullable=False)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("array", NULLS_INSIDE.values(), ids=NULLS_INSIDE)
def test_a_null_inside_a_value_whose_own_type_has_none_is_refused_with_its_row(array: pa.Array, tmp_path: Path) -> None:
    write_arrow_stream(tmp_path / "f.arrows", pa.table({"c": array}))
    columns = [column("c", array.type)]
    with pytest.raises(SplitError, match=r"row 1 \(counted from 0\)") as refused:
        scanned(columns, pieces_of(tmp_path / "f.arrows", tmp_path, columns))
    assert refused.value.reason == "COLUMN_VALUE"


@pytest.mark.parametrize("type_", [pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
@pytest.mark.parametrize(("low", "high"), [(-2, 3), (None, 0), (0, None), (None, None), (9, None)])
def test_rows_in_no_order_are_read_in_a_range_of_a_key(
    tmp_path: Path, type_: pa.DataType, low: int | None, high: int | None
) -> None:
    numbers = [4, -3, 0, 2, -2, 3, -1, 0]
    whole = pa.array(numbers, pa.int32() if type_.bit_width == 32 else pa.int64())
    pq.write_table(pa.table({"t": whole.view(type_), "n": numbers}), tmp_path / "rows.parquet")
    wanted = [Column(name=name, type=kind, nullable=True, key=True) for name, kind in (("t", type_), ("n", pa.int64()))]
    pieces = [
        replace(piece, key_bounds=(("t", -3, 4),), keys=KeyRange(column="t", low=low, high=high))
        for piece in pieces_of(tmp_path / "rows.parquet", tmp_path, wanted)
        if isinstance(piece, FilePiece)
    ]
    rows = [row["n"] for row in scanned(wanted, pieces)]
    in_range = [n for n in numbers if (low is None or n >= low) and (high is None or n < high)]
    assert rows == in_range
