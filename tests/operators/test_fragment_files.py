"""Fragments that read files themselves: the same rows that a scan of the same pieces gives."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tidegate.operators.core.column import Column
from tidegate.operators.core.operator import Operator
from tidegate.operators.core.piece import FilePiece, KeyRange, Piece
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.duckdb.statement import Statement
from tidegate.operators.sources.file_relations import FileSource, define
from tidegate.operators.sources.split_pieces import expand, native_obstacle, open_pieces
from tidegate.operators.testing import CHECKS, Case
from tidegate.proto.errors import ExecutionError, SplitError
from tidegate.proto.values import FileSplit, MissingColumns

from .data import Rows, column, pieces_of, run, scanned, write

X = [column("x", pa.int64())]


def over_files(instance: Instance, columns: Sequence[Column], sql: str | None = None) -> Fragment:
    """A fragment that passes the files' columns on, or runs `sql` over `t`."""
    schema = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in columns])
    names = ", ".join(f"c{i}" for i in range(len(columns)))
    files = [FileSource(source="t", relation="t", columns=tuple(columns))]
    return Fragment(sql or f"SELECT {names} FROM t", schema=schema, instance=instance, files=files, plan_path="read")


def read(instance: Instance, columns: Sequence[Column], pieces: Sequence[Piece], sql: str | None = None) -> Rows:
    assert native_obstacle(pieces, columns) is None
    fragment = over_files(instance, columns, sql)
    fragment.assign("t", pieces)
    return run(fragment)


def write_three(root: Path) -> None:
    """Two files of one schema, with one of another between them."""
    write(root / "a.parquet", pa.table({"x": range(10), "s": [str(i) for i in range(10)]}), row_group_size=4)
    write(root / "b.parquet", pa.table({"S": ["b"], "x": pa.array([100], pa.int32())}))
    write(root / "c.parquet", pa.table({"x": [200, None], "s": [None, "c"]}))


WIDE = [column("s", pa.string()), column("x", pa.int64()), column("none", pa.decimal128(5, 2))]


def test_files_of_several_schemas_come_in_order(instance: Instance, root: Path) -> None:
    write_three(root)
    pieces = pieces_of(root, root, WIDE, missing_columns=MissingColumns.NULL)
    assert read(instance, WIDE, pieces) == scanned(WIDE, pieces)
    assert len(scanned(WIDE, pieces)) == 13


def test_a_file_without_a_column_is_an_error_and_not_for_duckdb(root: Path) -> None:
    write_three(root)
    assert "is missing; there are: 'x'" in str(native_obstacle(pieces_of(root, root, WIDE), WIDE))
    with pytest.raises(SplitError, match="is missing; there are: 'x'"):
        scanned(WIDE, pieces_of(root, root, WIDE))


@pytest.mark.parametrize("rows", [(0, 0), (0, 4), (3, 9), (9, 10), (0, 10)])
def test_a_range_of_rows(rows: tuple[int, int], instance: Instance, root: Path) -> None:
    write_three(root)
    pieces = pieces_of(root / "a.parquet", root, WIDE, rows=rows, missing_columns=MissingColumns.NULL)
    assert [row["x"] for row in read(instance, WIDE, pieces)] == list(range(*rows))


@pytest.mark.parametrize("rows", [(0, 1), (0, 4), (3, 9), (1, 10)])
@pytest.mark.parametrize("placed", [False, True])
def test_a_part_that_is_weighed_is_read_once(
    rows: tuple[int, int], placed: bool, instance: Instance, root: Path
) -> None:
    write_three(root)
    source = FileSource(source="t", relation="t", columns=tuple(X), full_cardinality=True, placed=placed)
    pieces = [piece for piece in pieces_of(root / "a.parquet", root, X, rows=rows) if isinstance(piece, FilePiece)]
    definition = define(source, pieces, 1)
    selected = instance.connect().execute(f"WITH {definition.sql} SELECT c0 FROM t", list(definition.values)).fetchall()
    assert selected == [(x,) for x in range(*rows)]


@pytest.mark.parametrize(("rows", "expected"), [((0, 100), 200), ((0, 500), 600), ((100, 1000), 1000)])
def test_duckdb_expects_about_the_rows_of_a_part_that_is_weighed(
    rows: tuple[int, int], expected: int, instance: Instance, root: Path
) -> None:
    """A whole number of fifths of the file."""
    path = write(root / "f.parquet", pa.table({"x": range(1000)}))
    source = FileSource(source="t", relation="t", columns=tuple(X), full_cardinality=True)
    definition = define(
        source, [piece for piece in pieces_of(path, root, X, rows=rows) if isinstance(piece, FilePiece)], 1
    )
    row = (
        instance.connect()
        .execute(f"EXPLAIN (FORMAT JSON) WITH {definition.sql} SELECT c0 FROM t", definition.values)
        .fetchone()
    )
    assert row is not None
    assert f'"Estimated Cardinality": "{expected}"' in row[1]


def test_pieces_out_of_order_and_twice_are_read_as_they_are_given(instance: Instance, root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": range(10)}), row_group_size=3)
    pieces = open_pieces(expand(FileSplit(path=str(path), row_groups=(2, 0)), [str(root)], "split 1"))
    assert [row["x"] for row in read(instance, X, [*pieces, *pieces])] == [6, 7, 8, 0, 1, 2] * 2


def test_neighbours_in_different_ranges_of_a_key_are_read_each_in_its_own(instance: Instance, root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": range(10)}), row_group_size=5)
    [file] = (piece for piece in pieces_of(path, root, X) if isinstance(piece, FilePiece))
    low, high = KeyRange(column="x", low=None, high=3), KeyRange(column="x", low=7, high=None)
    pieces = [replace(file, rows=(0, 5), keys=low), replace(file, rows=(5, 10), keys=high)]
    assert [row["x"] for row in read(instance, X, pieces)] == [0, 1, 2, 7, 8, 9]


def test_the_next_epoch_has_its_own_files(instance: Instance, root: Path) -> None:
    write_three(root)
    fragment = over_files(instance, X, "SELECT count(*) FROM t")
    for name, rows in (("a.parquet", 10), ("c.parquet", 2)):
        fragment.assign("t", pieces_of(root / name, root))
        assert run(fragment) == [{"x": rows}]
    fragment.assign("t", [])
    assert run(fragment) == [{"x": 0}]
    assert fragment.plans == 3


def test_folders_give_columns_of_the_plans_types(instance: Instance, root: Path) -> None:
    write(root / "day=2024-02-29" / "p=1.5" / "f.parquet", pa.table({"x": [1]}))
    write(root / "day=__HIVE_DEFAULT_PARTITION__" / "p=2.5" / "f.parquet", pa.table({"x": [2]}))
    columns = [column("x", pa.int64()), column("day", pa.date32()), column("P", pa.decimal128(5, 2), nullable=False)]
    rows = read(instance, columns, pieces_of(root, root, columns))
    assert rows == [
        {"x": 1, "day": dt.date(2024, 2, 29), "P": decimal.Decimal("1.50")},
        {"x": 2, "day": None, "P": decimal.Decimal("2.50")},
    ]


def test_a_folder_does_not_hide_the_files_own_column(instance: Instance, root: Path) -> None:
    write(root / "x=1" / "f.parquet", pa.table({"x": [7]}))
    assert read(instance, X, pieces_of(root, root)) == [{"x": 7}]


def test_names_that_would_break_sql_are_only_names(instance: Instance, root: Path) -> None:
    name = 'x"; DROP TABLE t --'
    path = write(root / "it's; a 'file'.parquet", pa.table({name: [1]}))
    assert read(instance, [column(name, pa.int64())], pieces_of(path, root)) == [{name: 1}]


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1, None], pa.int64()), pa.int8()),
        (pa.array([1, None], pa.uint8()), pa.float32()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array([b"a", None], pa.large_binary()), pa.binary()),
        (pa.array([decimal.Decimal("1.5"), None], pa.decimal128(4, 1)), pa.decimal128(10, 3)),
        (pa.array([1, None], pa.timestamp("ms")), pa.timestamp("us")),
        (pa.array([1, None], pa.timestamp("us", "Asia/Tokyo")), pa.timestamp("us", "UTC")),
        (pa.array([1, None], pa.time64("us")), pa.time64("us")),
        (pa.array([[1], None], pa.list_(pa.int16())), pa.list_(pa.int16())),
        (pa.array([True, None]), pa.bool_()),
    ],
)
def test_casts_are_those_of_a_scan(array: pa.Array, type_: pa.DataType, instance: Instance, root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": array})), root)
    assert read(instance, [column("x", type_)], pieces) == scanned([column("x", type_)], pieces)


def test_a_value_that_does_not_fit_names_file_and_row(instance: Instance, root: Path) -> None:
    write(root / "a.parquet", pa.table({"x": [1]}))
    write(root / "b.parquet", pa.table({"x": [1, 300]}))
    with pytest.raises(SplitError, match=r"b\.parquet .*'x', row 1 .*300"):
        read(instance, [column("x", pa.int8())], pieces_of(root, root))


@pytest.mark.parametrize("statistics", [True, False])
def test_a_null_in_a_required_column_names_file_and_row(statistics: bool, instance: Instance, root: Path) -> None:
    write(root / "a.parquet", pa.table({"x": [1]}))
    write(root / "b.parquet", pa.table({"x": [1, None]}))
    required = [column("x", pa.int64(), nullable=False)]
    pieces = pieces_of(root, root, required if statistics else ())
    with pytest.raises(SplitError, match=r"b\.parquet .*'x' is null, row 1"):
        read(instance, required, pieces)


def test_a_required_column_without_nulls_is_read_where_nothing_proves_it(instance: Instance, root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [1, 2]})), root)
    assert read(instance, [column("x", pa.int64(), nullable=False)], pieces) == [{"x": 1}, {"x": 2}]


def test_what_the_plan_does_wrong_is_not_blamed_on_a_file(instance: Instance, root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [0]})), root)
    with pytest.raises(ExecutionError, match=r"^read: Could not convert string 'x0' to INT64$"):
        read(instance, X, pieces, "SELECT CAST('x' || c0 AS BIGINT) FROM t")


def test_a_file_that_changed_is_named(instance: Instance, root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": [1]}))
    pieces = pieces_of(path, root)
    write(path, pa.table({"x": [1, 2]}))
    with pytest.raises(SplitError, match=r"f\.parquet .*changed"):
        read(instance, X, pieces)
    path.unlink()
    with pytest.raises(SplitError, match=r"f\.parquet .*any more"):
        read(instance, X, pieces)


def test_a_file_that_changes_while_it_is_read_is_named(instance: Instance, root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": np.arange(500_000)}), row_group_size=100_000)
    fragment = over_files(instance, X)
    fragment.assign("t", pieces_of(path, root))
    output = fragment.run(())
    next(output)
    path.touch()
    with pytest.raises(SplitError, match=r"f\.parquet .*changed"):
        list(output)


def test_a_corrupt_page_is_blamed_on_its_file(instance: Instance, root: Path) -> None:
    write(root / "a.parquet", pa.table({"x": np.arange(50_000)}))
    path = write(root / "b.parquet", pa.table({"x": np.arange(50_000)}))
    content = bytearray(path.read_bytes())
    content[100:20_000] = b"\xff" * 19_900
    path.write_bytes(content)
    with pytest.raises(SplitError, match=r"b\.parquet"):
        read(instance, X, pieces_of(root, root), "SELECT sum(c0)::BIGINT FROM t")


def test_a_corrupt_page_header_is_blamed_on_its_file(instance: Instance, root: Path) -> None:
    path = root / "b.parquet"
    parquet.write_table(
        pa.table({"x": np.arange(5_000)}), path, row_group_size=500, compression="none", use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    content[200:30_000] = b"\xff" * 29_800
    path.write_bytes(content)
    with pytest.raises(SplitError, match=r"b\.parquet"):
        read(instance, X, pieces_of(root, root))


def test_relations_without_columns_still_have_rows(instance: Instance, root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [1, 2]})), root)
    fragment = Fragment(
        "SELECT count(*) FROM t",
        schema=pa.schema([("n", pa.int64())]),
        instance=instance,
        files=[FileSource(source="t", relation="t", columns=())],
    )
    fragment.assign("t", pieces)
    assert run(fragment) == [{"n": 2}]


def test_files_and_streams_may_meet(instance: Instance, root: Path) -> None:
    from tidegate.operators.duckdb.statement_inputs import StreamSource

    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [1, 2]})), root)
    names = pa.table({"x": [2], "name": ["two"]})
    fragment = Fragment(
        "SELECT in0.c1 FROM t JOIN in0 ON t.c0 = in0.c0",
        schema=pa.schema([("name", pa.string())]),
        instance=instance,
        files=[FileSource(source="t", relation="t", columns=tuple(X))],
        streams=[StreamSource(relation="in0", schema=names.schema, size_class=10, replayed=True)],
    )
    fragment.assign("t", pieces)
    assert run(fragment, names) == run(fragment, names) == [{"name": "two"}]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_fragment_over_files_conforms(check: Callable[[Case], None], instance: Instance, root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": np.arange(150_000)}), row_group_size=50_000)

    def assign(operator: Operator) -> None:
        assert isinstance(operator, Fragment)
        operator.assign("t", pieces_of(path, root))

    check(Case(make=lambda: over_files(instance, X), epochs=[[], []], before=assign))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ((0, 5), ["file_row_number < 5"]),
        ((5, 12), ["file_row_number >= 5"]),
        ((5, 9), ["file_row_number >= 5", "file_row_number < 9"]),
        ((0, 12), []),
        ((12, 12), ["file_row_number >= 12"]),
    ],
)
def test_a_part_of_a_file_has_a_bound_only_where_it_ends(root: Path, rows: tuple[int, int], wanted: list[str]) -> None:
    path = write(root / "f.parquet", pa.table({"x": range(12)}), row_group_size=4)
    (piece, *_) = pieces_of(path, root, X)
    sql = define(FileSource(source="t", relation="t", columns=tuple(X)), [replace(piece, rows=rows)], 1).sql
    assert [term for term in wanted if term in sql] == wanted
    assert sql.count("file_row_number") == len(wanted)


class KnownRows:
    """The ordered form of a statement of which it is known whether it joins."""

    sql = "SELECT c0 FROM t"
    joins = ()

    def __init__(self, builds: bool | None) -> None:
        self.builds = builds


@pytest.mark.parametrize(("builds", "asked"), [(True, 0), (False, 0), (None, 1)])
def test_duckdb_is_asked_for_joins_only_where_nothing_is_known(
    pool: InstancePool, root: Path, monkeypatch: pytest.MonkeyPatch, builds: bool | None, asked: int
) -> None:
    small = pool.take(InstanceSettings(memory_limit=64 << 20, roots=(str(root),)))
    path = write(root / "f.parquet", pa.table({"x": range(1_000_000)}))
    files = [FileSource(source="t", relation="t", columns=tuple(X))]
    fragment = Fragment(
        "SELECT sum(c0)::BIGINT FROM t", schema=pa.schema([("x", pa.int64())]), instance=small, files=files,
        ordered=KnownRows(builds),
    )  # fmt: skip
    fragment.assign("t", pieces_of(path, root))
    explanations: list[str] = []
    explain = Statement.explained_joins
    monkeypatch.setattr(
        Statement, "explained_joins", lambda self, *how: (explanations.append(""), explain(self, *how))[1]
    )
    assert run(fragment) == [{"x": 499_999_500_000}]
    assert len(explanations) == asked
    small.close()


def test_a_statement_tells_the_share_of_its_files_that_it_has_read(instance: Instance, root: Path) -> None:
    write(root / "a.parquet", pa.table({"x": range(3_000_000)}), row_group_size=100_000)
    fragment = over_files(instance, X, "SELECT c0 + 1 FROM t")
    fragment.assign("t", pieces_of(root / "a.parquet", root, X))
    shares = [fragment.share()]
    with closing(fragment.run(())) as batches:
        shares += [fragment.share() for _ in batches]
    known = [share for share in shares if share is not None]
    assert shares[0] is None
    assert known == sorted(known)
    assert any(0 < share < 1 for share in known)
