"""Statements with a LIMIT over files of which DuckDB selects rows by their positions: parts of files, and folders whose
names are values. DuckDB cannot plan them where it looks up columns for the LIMIT's rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators.core.column import Column
from tidegate.operators.core.piece import Piece
from tidegate.operators.duckdb.fragment import Fragment
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.sources.file_relations import FileSource
from tidegate.operators.sources.split_pieces import native_obstacle

from ..searching import one_of_each
from .data import Rows, column, pieces_of, run, scanned, write

Limited = Callable[[Rows], Rows]

COLUMNS = [column("k", pa.int64()), column("v", pa.int64()), column("day", pa.int64()), column("t", pa.string())]
LIMITS = [
    ("SELECT * FROM t LIMIT 3 OFFSET 0", lambda rows: rows[:3]),
    ("SELECT * FROM t LIMIT 4 OFFSET 2", lambda rows: rows[2:6]),
    ("SELECT * FROM t ORDER BY c1, c0 LIMIT 3", lambda rows: sorted(rows, key=lambda r: (r["v"], r["k"]))[:3]),
    ("SELECT * FROM t ORDER BY c0 DESC LIMIT 2", lambda rows: sorted(rows, key=lambda r: -r["k"])[:2]),
    ("SELECT * FROM t WHERE c2 = 2 LIMIT 3 OFFSET 0", lambda rows: [r for r in rows if r["day"] == 2][:3]),
    (
        "SELECT * FROM t WHERE c2 > 1 ORDER BY c0 DESC LIMIT 2",
        lambda rows: sorted((r for r in rows if r["day"] > 1), key=lambda r: -r["k"])[:2],
    ),
    (
        "SELECT t.* FROM (SELECT c0 FROM t LIMIT 5 OFFSET 0) AS few(c) JOIN t ON t.c0 = few.c ORDER BY c LIMIT 2",
        lambda rows: sorted(rows[:5], key=lambda r: r["k"])[:2],
    ),
]


def fragment_over(
    instance: Instance, sql: str, columns: Sequence[Column] = COLUMNS, *, full_cardinality: bool = False
) -> Fragment:
    source = FileSource(source="t", relation="t", columns=tuple(columns), full_cardinality=full_cardinality)
    schema = pa.schema([pa.field(c.name, c.type) for c in columns])
    return Fragment(sql, schema=schema, instance=instance, files=[source], plan_path="read")


def answer(fragment: Fragment, pieces: Sequence[Piece]) -> Rows:
    fragment.assign("t", pieces)
    return run(fragment)


@pytest.fixture
def folders(root: Path) -> Path:
    """Two days of 20 rows each, in four row groups."""
    for day in (1, 2):
        table = pa.table(
            {
                "k": [day * 100 + i for i in range(20)],
                "v": [i * 7 % 5 for i in range(20)],
                "t": [f"{day}-{i}" for i in range(20)],
            }
        )
        write(root / f"day={day}" / "f.parquet", table, row_group_size=5)
    return root


@pytest.mark.parametrize(
    ("sql", "rows", "full_cardinality"),
    one_of_each(product(dict(LIMITS), [None, (0, 3), (2, 14), (19, 20), (4, 4)], [False, True])),
    ids=str,
)
def test_a_limit_over_a_part_of_a_file(
    sql: str, rows: tuple[int, int] | None, full_cardinality: bool, instance: Instance, folders: Path
) -> None:
    """Twice, and over the whole file in between."""
    fragment = fragment_over(instance, sql, full_cardinality=full_cardinality)
    whole = pieces_of(folders / "day=2" / "f.parquet", folders, COLUMNS)
    part = pieces_of(folders / "day=2" / "f.parquet", folders, COLUMNS, rows=rows)
    for pieces in (part, whole, part):
        assert answer(fragment, pieces) == dict(LIMITS)[sql](scanned(COLUMNS, pieces))


@pytest.mark.parametrize(("sql", "limited"), LIMITS, ids=[sql for sql, _ in LIMITS])
def test_a_limit_over_folders_whose_names_are_values(
    sql: str, limited: Limited, instance: Instance, folders: Path
) -> None:
    pieces = pieces_of(folders, folders, COLUMNS)
    assert len({row["day"] for row in scanned(COLUMNS, pieces)}) == 2
    assert answer(fragment_over(instance, sql), pieces) == limited(scanned(COLUMNS, pieces))


@pytest.mark.parametrize("name", ["file_row_number", "File_Index"])
def test_a_file_whose_own_column_hides_a_position_is_not_for_duckdb(name: str, root: Path) -> None:
    """`WHERE file_row_number >= 1` would select by the file's values."""
    columns = [column("x", pa.int64())]
    pieces = pieces_of(write(root / "f.parquet", pa.table({"x": [1, 2, 3], name: [5, 0, 5]})), root, columns, (1, 3))
    assert f"column '{name}' hides" in str(native_obstacle(pieces, columns))
    assert scanned(columns, pieces) == [{"x": 2}, {"x": 3}]
