"""Merge joins and streaming aggregates on several channels: the rows and their order are those of one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.operators.arrays.digest import digest
from tidegate.proto.errors import TidegateError

from ..on_channels import on_channels
from ..searching import one_of_each
from .plans import declared, limited, merged, read, sorted_by, summed
from .test_sorted_plans import SQL, answer, names, rows_of

A, B = read("a", "k", "v"), read("b", "k", "w")
SORTED_A, SORTED_B = declared(A, 0), declared(B, 0)
ROWS, GROUP_ROWS = 300_000, 50_000
ON = "a.k = b.k"


def table_of(seed: int, name: str) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"k": np.sort(random.integers(0, ROWS, ROWS)), name: random.integers(0, 50, ROWS)})


@pytest.fixture(scope="module")
def tables() -> Mapping[str, pa.Table]:
    return {"a": table_of(1, "v"), "b": table_of(2, "w")}


@pytest.fixture(scope="module")
def files(tables: Mapping[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Row groups that neither start nor end at a key's first or last row."""
    folder = tmp_path_factory.mktemp("sorted")
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=GROUP_ROWS)
    return {name: folder / f"{name}.parquet" for name in tables}


def epoch(relation: object, width: int, files: Mapping[str, Path], channels: int, threads: int = 2) -> pa.Table:
    roots = list({path.parent for path in files.values()})
    files_read = {name: path for name, path in files.items() if f"['{name}']" in str(relation)}
    with (
        tidegate.local(roots=roots, threads=threads) as client,
        client.create_task(names(relation, width), **on_channels(channels)) as task,
    ):
        return task.run_epoch(files_read).table()


def sorted_side(relation: object) -> object:
    """Sorted by the plan, by all columns, so that its channels sort and an exchange merges."""
    return sorted_by(relation, 0, 1)


CASES = {
    "aggregate of a sorted file": (summed(SORTED_A), 2),
    "join of sorted files": (merged(SORTED_A, SORTED_B, 2, below=True), 4),
    "left join": (merged(SORTED_A, SORTED_B, 2, "LEFT"), 4),
    "right join": (merged(SORTED_A, SORTED_B, 2, "RIGHT"), 4),
    "anti join": (merged(SORTED_A, SORTED_B, 2, "LEFT_ANTI"), 2),
    "aggregate of a join": (summed(merged(SORTED_A, SORTED_B, 2)), 2),
    "aggregate of sorted rows": (summed(sorted_side(A)), 2),
    "join of sorted rows": (merged(sorted_side(A), sorted_side(B), 2, "LEFT"), 4),
    "aggregate of a join of sorted rows": (summed(merged(sorted_side(A), sorted_side(B), 2)), 2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rows_and_their_order_are_the_same_on_any_number_of_channels_and_threads(
    case: str, files: Mapping[str, Path]
) -> None:
    relation, width = CASES[case]
    digests = set()
    for channels, threads in ((1, 2), (2, 4), (3, 1)):
        result = epoch(relation, width, files, channels, threads)
        assert result.num_rows
        digests.add(digest(result.schema, result.to_batches()))
    assert len(digests) == 1


SIDES = {"ranges": (SORTED_A, SORTED_B), "merged": (sorted_side(A), sorted_side(B))}


@pytest.mark.parametrize(
    ("type_", "sides"), one_of_each(product(["INNER", "OUTER", "RIGHT", "LEFT_SEMI", "RIGHT_ANTI"], SIDES))
)
def test_joins_on_two_channels_give_the_rows_of_their_sql(
    type_: str, sides: str, tables: Mapping[str, pa.Table], files: Mapping[str, Path]
) -> None:
    width = 2 if type_.endswith(("SEMI", "ANTI")) else 4
    totals = summary(epoch(merged(*SIDES[sides], 2, type_), width, files, 2), width)
    expected = f"SELECT {SUMMARY[width]} FROM ({SQL[type_].format(on=ON)}) AS found({COLUMNS[width]})"
    assert totals == answer(expected, **tables)


@pytest.mark.parametrize("type_", ["INNER", "LEFT", "LEFT_SEMI", "LEFT_ANTI"])
def test_a_small_side_that_every_channel_has_whole_changes_no_row(
    type_: str, tables: Mapping[str, pa.Table], files: Mapping[str, Path], tmp_path: Path
) -> None:
    """Its keys are in the ranges of all channels, repeated."""
    few = tables["b"].slice(ROWS // 3, 500)
    few = pa.concat_tables([few, few, tables["b"].slice(ROWS - 500)]).sort_by("k")
    pq.write_table(few, tmp_path / "few.parquet")
    side_files = {"a": files["a"], "b": tmp_path / "few.parquet"}
    width = 2 if type_.endswith(("SEMI", "ANTI")) else 4
    results = [epoch(merged(SORTED_A, SORTED_B, 2, type_), width, side_files, channels) for channels in (1, 2, 3)]
    assert len({digest(result.schema, result.to_batches()) for result in results}) == 1
    expected = f"SELECT {SUMMARY[width]} FROM ({SQL[type_].format(on=ON)}) AS found({COLUMNS[width]})"
    assert summary(results[1], width) == answer(expected, a=tables["a"], b=few)


COLUMNS = {2: "c0, c1", 4: "c0, c1, c2, c3"}
SUMMARY = {2: "count(*), sum(hash(c0, c1))", 4: "count(*), sum(hash(c0, c1, c2, c3))"}


def summary(rows: pa.Table, width: int) -> list[tuple[object, ...]]:
    return answer(f"SELECT {SUMMARY[width]} FROM rows", rows=rows.rename_columns([f"c{at}" for at in range(width)]))


def written(folder: Path, keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Mapping[str, Path]:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"k": keys, "v": keys}), path, row_group_size=GROUP_ROWS)
    return {"a": path}


def swapped(row: int, other: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    keys = np.arange(ROWS)
    keys[[row, other]] = keys[[other, row]]
    return keys


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (swapped(125_000, 125_001), "row 125001 (k=125000) comes after row 125000 (k=125001)"),
        (swapped(149_999, 150_000), "row 150000 (k=149999) comes after row 149999 (k=150000)"),
        (np.roll(np.arange(ROWS), 150_000), "row 150000 (k=0) comes after row 149999 (k=299999)"),
    ],
    ids=["inside a row group", "from one row group to the next", "ranges in another order"],
)
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_a_row_out_of_order_is_found_wherever_channels_start(
    keys: np.ndarray[tuple[int], np.dtype[np.int64]], expected: str, channels: int, tmp_path: Path
) -> None:
    with pytest.raises(TidegateError) as error:
        epoch(summed(SORTED_A), 2, written(tmp_path, keys), channels)
    assert error.value.reason == "INPUT_NOT_SORTED"
    assert expected in error.value.message


def test_keys_at_the_end_of_their_type_are_in_a_range(tmp_path: Path) -> None:
    keys = np.full(3 * GROUP_ROWS, np.iinfo(np.int64).max)
    keys[:GROUP_ROWS] = 7
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": keys, "v": keys % 2}), path, row_group_size=GROUP_ROWS)
    result = epoch(summed(SORTED_A), 2, {"a": path}, 2)
    assert result.column(0).to_pylist() == [7, np.iinfo(np.int64).max]


def test_a_limit_above_channels_gives_the_first_rows_of_all(files: Mapping[str, Path]) -> None:
    relation = limited(summed(merged(SORTED_A, SORTED_B, 2)), 5)
    rows_by_channels = {channels: rows_of(epoch(relation, 2, files, channels)) for channels in (1, 2, 3)}
    assert rows_by_channels[1] == rows_by_channels[2] == rows_by_channels[3] == sorted(rows_by_channels[1])
