"""Plans over sources that are declared to be sorted, through the whole service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import PyFileSystem

import tidegate
from tidegate.operators.arrays.digest import digest
from tidegate.operators.sources import scan
from tidegate.proto.errors import TidegateError
from tidegate.proto.statistics import EpochStatistics

from ..duckdb_oracle import oracle
from ..on_channels import on_channels
from ..operators.test_early_close import CountingHandler, groups_touched
from ..searching import one_of_each
from .plans import declared, filtered, limited, merged, plan, read, sorted_by, summed

A, B = read("a", "k", "v"), read("b", "k", "w")
SORTED_A, SORTED_B = declared(A, 0), declared(B, 0)
SQL = {
    "INNER": "SELECT a.k, v, b.k, w FROM a JOIN b ON {on}",
    "OUTER": "SELECT a.k, v, b.k, w FROM a FULL JOIN b ON {on}",
    "LEFT": "SELECT a.k, v, b.k, w FROM a LEFT JOIN b ON {on}",
    "RIGHT": "SELECT a.k, v, b.k, w FROM a RIGHT JOIN b ON {on}",
    "LEFT_SEMI": "SELECT a.k, v FROM a SEMI JOIN b ON {on}",
    "RIGHT_SEMI": "SELECT b.k, w FROM b SEMI JOIN a ON {on}",
    "LEFT_ANTI": "SELECT a.k, v FROM a ANTI JOIN b ON {on}",
    "RIGHT_ANTI": "SELECT b.k, w FROM b ANTI JOIN a ON {on}",
}


def sorted_table(seed: int, rows: int, highest: int, name: str) -> pa.Table:
    """Sorted by k, nulls last, with groups of several rows."""
    random = np.random.default_rng(seed)
    keys = np.sort(random.integers(0, highest, rows))
    columns = {"k": pa.array(keys, mask=np.arange(rows) >= rows - 3), name: random.integers(0, 5, rows)}
    return pa.table(columns)


def answer(sql: str, **tables: pa.Table) -> list[tuple[object, ...]]:
    with oracle(tables) as connection:
        return sorted(connection.sql(sql).fetchall(), key=repr)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def names(relation: object, count: int) -> str:
    json = plan(relation, *(f"c{at}" for at in range(count))).json
    assert json is not None
    return json


@pytest.mark.parametrize("type_", SQL)
@pytest.mark.parametrize("below", [False, True], ids=["keys", "keys and a condition"])
def test_every_type_of_merge_join_gives_the_rows_of_its_sql(type_: str, below: bool) -> None:
    on = "a.k = b.k AND a.v < b.w" if below else "a.k = b.k"
    width = 2 if type_.endswith(("SEMI", "ANTI")) else 4
    relation = merged(SORTED_A, SORTED_B, 2, type_, below)
    with tidegate.local() as client, client.create_task(names(relation, width)) as task:
        for seed, count in ((1, 900), (2, 0), (3, 400)):
            a, b = sorted_table(seed, max(count, 3), 300, "v"), sorted_table(seed + 50, 500, 400, "w")
            result = task.run_epoch({"a": a, "b": b}).table()
            assert sorted(rows_of(result), key=repr) == answer(SQL[type_].format(on=on), a=a, b=b)
        assert "MergeJoin" in {operator.operator for operator in task.statistics().operators}


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("determinism", ["strict", "relaxed"])
def test_aggregates_of_joined_rows_come_in_the_order_of_the_keys(channels: int, determinism: str) -> None:
    if determinism == "relaxed" and channels > 1:
        pytest.skip("relaxed tasks run one channel")
    a, b = sorted_table(1, 200_000, 60_000, "v"), sorted_table(2, 100_000, 70_000, "w")
    relation = summed(merged(filtered(SORTED_A, 1, 0), SORTED_B, 2))
    expected = "SELECT a.k, sum(v)::BIGINT FROM a JOIN b ON a.k = b.k WHERE v > 0 GROUP BY 1"
    options = {**on_channels(channels), "determinism": determinism}
    with tidegate.local() as client, client.create_task(names(relation, 2), **options) as task:
        for _ in range(2):
            groups = rows_of(task.run_epoch({"a": a, "b": b}).table())
            assert groups == sorted(groups)
            assert sorted(groups, key=repr) == answer(expected, a=a, b=b)


def test_how_splits_are_cut_does_not_show() -> None:
    a, b = sorted_table(1, 70_000, 9_000, "v"), sorted_table(2, 30_000, 9_000, "w")
    relation = merged(SORTED_A, SORTED_B, 2, "OUTER", below=True)
    digests = set()
    for rows in (70_000, 4_096, 977):
        with tidegate.local() as client, client.create_task(names(relation, 4)) as task:
            splits = [a.slice(at, rows) for at in range(0, a.num_rows, rows)]
            result = task.run_epoch({"a": splits, "b": b}).table()
            digests.add(digest(result.schema, result.to_batches()))
    assert len(digests) == 1


def test_sorted_inputs_of_a_plan_s_own_merge_join_need_no_declaration() -> None:
    a, b = (
        sorted_table(1, 500, 100, "v").take(np.random.default_rng(5).permutation(500)),
        sorted_table(2, 300, 100, "w"),
    )
    relation = merged(sorted_by(A, 0), sorted_by(B, 0, 1), 2)
    with tidegate.local() as client, client.create_task(names(relation, 4)) as task:
        result = task.run_epoch({"a": a, "b": b}).table()
        assert sorted(rows_of(result), key=repr) == answer(SQL["INNER"].format(on="a.k = b.k"), a=a, b=b)
        assert "MergeJoin" in {operator.operator for operator in task.statistics().operators}


def test_a_merge_join_of_inputs_in_any_order_has_the_same_rows() -> None:
    a, b = sorted_table(1, 500, 100, "v"), sorted_table(2, 300, 100, "w")
    shuffled = a.take(np.random.default_rng(5).permutation(500))
    with tidegate.local() as client, client.create_task(names(merged(A, B, 2), 4)) as task:
        result = task.run_epoch({"a": shuffled, "b": b}).table()
        assert sorted(rows_of(result), key=repr) == answer(SQL["INNER"].format(on="a.k = b.k"), a=a, b=b)


# --- the order is checked -----------------------------------------------------------------------------------------


def refused(
    relation: object, width: int, source: object, roots: Sequence[Path] = (), **options: object
) -> TidegateError:
    with tidegate.local(roots=roots) as client, client.create_task(names(relation, width), **options) as task:
        with pytest.raises(TidegateError) as error:
            task.run_epoch({"a": source}).table()
        return error.value


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("relation", [SORTED_A, summed(SORTED_A)], ids=["read alone", "aggregated"])
def test_a_row_out_of_order_is_an_error_that_names_it(relation: object, channels: int) -> None:
    error = refused(relation, 2, pa.table({"k": [1, 2, 2, 1], "v": [0, 0, 0, 0]}), **on_channels(channels))
    assert error.reason == "INPUT_NOT_SORTED"
    assert "source 'a' is declared to be sorted by 'k' ascending nulls last" in error.message
    assert "row 3 (k=1) comes after row 2 (k=2)" in error.message


def test_the_order_goes_on_from_split_to_split() -> None:
    first, second = pa.table({"k": [1, 5], "v": [0, 0]}), pa.table({"k": [4, 6], "v": [0, 0]})
    error = refused(SORTED_A, 2, [first, second])
    assert "row 0 (k=4) comes after row 1 of " in error.message


def test_each_epoch_begins_anew() -> None:
    late, early = pa.table({"k": [7, 8], "v": [1, 2]}), pa.table({"k": [1, 2], "v": [3, 4]})
    with tidegate.local() as client, client.create_task(names(summed(SORTED_A), 2)) as task:
        assert rows_of(task.run_epoch({"a": late}).table()) == [(7, 1), (8, 2)]
        assert rows_of(task.run_epoch({"a": early}).table()) == [(1, 3), (2, 4)]


def test_a_file_that_calls_itself_sorted_is_checked_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"k": [2, 1], "v": [0, 0]})
    pq.write_table(table, path, sorting_columns=[pq.SortingColumn(0)])
    error = refused(summed(SORTED_A), 2, path, roots=[tmp_path])
    assert f"{path} (split 1 of source 'a'): source 'a' is declared" in error.message
    assert "row 1 (k=1) comes after row 0 (k=2)" in error.message


# --- no more is read than is needed -------------------------------------------------------------------------------

GROUPS = 100
GROUP_ROWS = 65_536


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One hundred row groups, ten rows to a key."""
    path = tmp_path_factory.mktemp("sorted") / "f.parquet"
    keys = np.arange(GROUPS * GROUP_ROWS, dtype=np.int32) // 10
    pq.write_table(pa.table({"k": keys, "v": keys}), path, row_group_size=GROUP_ROWS, use_dictionary=False)
    return path


def epoch(relation: object, width: int, path: Path, **more: pa.Table) -> tuple[pa.Table, EpochStatistics]:
    with tidegate.local(roots=[path.parent]) as client, client.create_task(names(relation, width)) as task:
        epoch_ = task.run_epoch({"a": path, **more})
        return epoch_.table(), epoch_.statistics


@pytest.mark.parametrize("left", [SORTED_A, filtered(SORTED_A, 1, -1)], ids=["bare", "filtered"])
def test_a_join_stops_reading_within_two_row_groups_of_the_last_match(left: object, large: Path) -> None:
    last = 9 * GROUP_ROWS // 10 + 3
    few = pa.table({"k": [3, last], "w": [1, 2]})
    result, statistics = epoch(merged(left, SORTED_B, 2), 4, large, b=few)
    assert set(result.column(0).to_pylist()) == {3, last}
    assert statistics.rows_in <= 12 * GROUP_ROWS + 2


KEEPS = {
    "left": ("OUTER", "LEFT", "LEFT_ANTI", "LEFT_SINGLE"),
    "right": ("OUTER", "RIGHT", "RIGHT_ANTI", "RIGHT_SINGLE"),
}
TYPES = (*SQL, "LEFT_SINGLE", "RIGHT_SINGLE")


@pytest.fixture(scope="module")
def distinct(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One hundred row groups, each key once."""
    path = tmp_path_factory.mktemp("distinct") / "f.parquet"
    keys = np.arange(GROUPS * GROUP_ROWS, dtype=np.int64)
    # The footer is read with what is before it: a column that nobody wants.
    table = pa.table({"k": keys, "v": keys, "w": keys, "unwanted": keys})
    pq.write_table(table, path, row_group_size=GROUP_ROWS, use_dictionary=False, compression="none")
    return path


@pytest.mark.parametrize(
    ("dropped", "type_", "wanted"),
    one_of_each(
        (side, type_, wanted)
        for side, kept in KEEPS.items()
        for type_ in TYPES
        if type_ not in kept
        for wanted in (-1, 3)
    ),
)
def test_a_side_that_nothing_more_can_match_is_not_decoded(
    dropped: str, type_: str, wanted: int, distinct: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted below the engine, by the file system. The other side's last key is in the tenth row group. All rows are
    wanted, or those of one number.
    """
    handler = CountingHandler()
    monkeypatch.setattr(scan, "LocalFileSystem", lambda **_: PyFileSystem(handler))
    last = 9 * GROUP_ROWS + 7
    sources = {"left": "a", "right": "b"}
    large, small = sources.pop(dropped), *sources.values()
    few = pa.table({"k": [5, last], "vw"["ab".index(small)]: [1, 2]})
    left = filtered(SORTED_A, 1, wanted) if dropped == "left" else SORTED_A
    right = filtered(SORTED_B, 1, wanted) if dropped == "right" else SORTED_B
    width = 2 if type_.endswith(("SEMI", "ANTI")) else 4
    relation = merged(left, right, 2, type_)
    with tidegate.local(roots=[distinct.parent]) as client, client.create_task(names(relation, width)) as task:
        result = task.run_epoch({large: distinct, small: few}).table()
    assert result.num_rows == (0 if type_.endswith("ANTI") else 2)
    assert set(range(10)) <= groups_touched(distinct, handler.reads) <= set(range(12))


def few_rows(last: int) -> pa.Table:
    return pa.table({"k": [5, last], "w": [1, 2]})


def many_rows(last: int) -> pa.Table:
    return pa.table({"k": np.arange(last + 1), "w": np.arange(last + 1)})


@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize(
    ("right", "rows"),
    [(SORTED_B, few_rows), (SORTED_B, many_rows), (sorted_by(B, 0, 1), many_rows)],
    ids=["whole", "ranges", "sorted by the plan"],
)
def test_on_several_channels_each_stops_within_two_row_groups_of_its_last_match(
    right: object,
    rows: Callable[[int], pa.Table],
    channels: int,
    distinct: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nothing matches in a channel's range, within two of its start."""
    handler = CountingHandler()
    monkeypatch.setattr(scan, "LocalFileSystem", lambda **_: PyFileSystem(handler))
    table = rows(9 * GROUP_ROWS + 7)
    pq.write_table(table, tmp_path / "b.parquet", row_group_size=100_000)
    roots, options = [distinct.parent, tmp_path], on_channels(channels)
    with (
        tidegate.local(roots=roots, threads=4) as client,
        client.create_task(names(merged(SORTED_A, right, 2), 4), **options) as task,
    ):
        result = task.run_epoch({"a": distinct, "b": tmp_path / "b.parquet"}).table()
    assert result.column(0).equals(table.column(0))
    touched = groups_touched(distinct, handler.reads)
    assert set(range(10)) <= touched
    assert len(touched) <= 10 + 2 * channels


def test_small_row_groups_are_decoded_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    keys = np.arange(100_000)
    pq.write_table(pa.table({"k": keys, "v": keys}), path, row_group_size=1_000)
    result, statistics = epoch(merged(SORTED_A, SORTED_B, 2), 4, path, b=pa.table({"k": [4, 9_500], "w": [1, 2]}))
    assert result.column(0).to_pylist() == [4, 9_500]
    assert statistics.rows_in <= 12 * 1_000 + 2


@pytest.mark.parametrize(
    "relation",
    [limited(summed(SORTED_A), 1), limited(summed(merged(SORTED_A, SORTED_B, 2)), 1)],
    ids=["aggregate", "join and aggregate"],
)
def test_the_first_rows_come_after_at_most_a_hundredth_of_the_input(relation: object, large: Path) -> None:
    other = pa.table({"k": pa.array(np.arange(GROUPS)), "w": pa.array(np.arange(GROUPS))})
    more = {"b": other} if "mergeJoin" in str(relation) else {}
    result, statistics = epoch(relation, 2, large, **more)
    assert rows_of(result) == [(0, 0)]
    assert statistics.rows_in <= GROUPS * GROUP_ROWS / 100 + len(more) * GROUPS
