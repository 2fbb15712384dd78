"""Tumbling windows of files whose row groups rise in time: each channel reads a range of whole slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate import windows

ROWS: Final = 200_000
GROUP_ROWS: Final = 12_500
SIZE: Final = 70
"""The ticks of a window. They do not divide the number of any row group's ticks."""
TICKS: Final = 10_000
ON_CHANNELS: Final[dict[str, Any]] = {"parallel_threshold_seconds": 0}

TYPES: Final[dict[str, tuple[pa.DataType, Any, Any]]] = {
    "integers": (pa.int64(), sub.i64, SIZE),
    "short integers": (pa.int32(), sub.i32, SIZE),
    "dates": (pa.date32(), sub.date, SIZE),
    "moments": (pa.timestamp("us"), sub.precision_timestamp(6), timedelta(microseconds=SIZE)),
    "moments with a zone": (
        pa.timestamp("us", "Europe/Berlin"),
        sub.precision_timestamp_tz(6),
        timedelta(microseconds=SIZE),
    ),
    "milliseconds": (pa.timestamp("ms"), sub.precision_timestamp(3), timedelta(milliseconds=SIZE)),
    "nanoseconds": (pa.timestamp("ns"), sub.precision_timestamp(9), timedelta(microseconds=SIZE)),
}
CUT: Final = frozenset({"integers", "dates", "moments", "moments with a zone"})
"""Slices of other times are not those of the file's own numbers."""
EXCHANGED, IN_RANGES = "exchanged", "in ranges"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Client]:
    with tidegate.local(roots=[tmp_path_factory.getbasetemp()]) as client:
        yield client


def times(seed: int, least: int = -TICKS // 2) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ticks in order, before and after 0."""
    return np.sort(np.random.default_rng(seed).integers(least, least + TICKS, ROWS))


def stream(ticks: np.ndarray[Any, Any], seed: int, type_: pa.DataType = TYPES["integers"][0]) -> pa.Table:
    random = np.random.default_rng(seed)
    scale = 1_000 if type_ == pa.timestamp("ns") else 1
    moments = pa.array(ticks * scale).cast(pa.int32() if type_.bit_width == 32 else pa.int64())
    keys = pa.array(random.integers(-3, 4, len(ticks)), mask=random.random(len(ticks)) < 0.02)
    values = pa.array(random.integers(-(10**9), 10**9, len(ticks)), mask=random.random(len(ticks)) < 0.02)
    return pa.table({"t": moments.view(type_), "k": keys, "v": values})


def files(folder: Path, name: str, table: pa.Table, *, number: int = 6, group_rows: int = GROUP_ROWS) -> list[str]:
    paths = []
    for at in range(number):
        begin, end = len(table) * at // number, len(table) * (at + 1) // number
        paths.append(str(folder / f"{name}-{at}.parquet"))
        pq.write_table(table.slice(begin, end - begin), paths[-1], row_group_size=group_rows)
    return paths


def tumbling(
    name: str, kind: str = "integers", *, keys: Sequence[str] = ("k",), size: Any = None, offset: int | None = None
) -> Any:
    _, time, length = TYPES[kind]
    source = sub.read_named_table(name, {"t": time, "k": sub.i64, "v": sub.i64})
    measures = [function(sub.col("v")).alias(function_name) for function_name, function in MEASURES.items()]
    return windows.tumbling(source, "t", size or length, keys=list(keys), measures=measures, offset=offset)


MEASURES: Final[dict[str, Callable[..., Any]]] = {"s": sub.f.sum, "n": sub.f.count, "least": sub.f.min}


def answer(
    client: tidegate.Client, plan: Any, splits: dict[str, list[str]], channels: int
) -> tuple[list[tuple[Any, ...]], str]:
    """The rows, and the way in which the channels had their rows."""
    with client.create_task(plan.to_plan(), channels=channels, **ON_CHANNELS) as task:
        table = task.run_epoch(splits).table()
        operators = task.statistics().operators
    if any(one.operator == "Exchange" for one in operators):
        way = EXCHANGED
    else:
        way = IN_RANGES if all(one.runs == channels for one in operators) else "one channel"
    return list(zip(*(numbers(column) for column in table.columns), strict=True)), way


def numbers(column: pa.ChunkedArray) -> list[Any]:
    """The values; whole numbers of units for moments and days."""
    if pa.types.is_temporal(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(width) for chunk in column.chunks], width).to_pylist()
    return column.to_pylist()


def by_duckdb(table: pa.Table, size: int) -> str:
    """The SQL of the windows of this table, whose times are numbers."""
    return (
        f"SELECT b AS w, b + {size} AS e, k, sum(v)::BIGINT AS s, count(v) AS n, min(v) AS least "
        f"FROM (SELECT (t // {size} - CASE WHEN t % {size} < 0 THEN 1 ELSE 0 END) * {size} AS b, k, v FROM {table}) "
        "WHERE b IS NOT NULL GROUP BY b, k"
    )


def oracle(*tables: pa.Table, size: int = SIZE) -> list[tuple[Any, ...]]:
    """The windows of one table, or the pairs of windows of two with equal beginnings and keys."""
    with duckdb.connect() as connection:
        for at, table in enumerate(tables):
            plain = pa.chunked_array([numbers(table["t"])], pa.int64())
            connection.register(f"of{at}", table.set_column(0, "t", plain))
        one = by_duckdb("of0", size)  # type: ignore[arg-type]
        if len(tables) == 1:
            return connection.sql(one).fetchall()
        other = by_duckdb("of1", size)  # type: ignore[arg-type]
        return connection.sql(f"SELECT x.*, y.* FROM ({one}) x JOIN ({other}) y ON x.w = y.w AND x.k = y.k").fetchall()


def alike(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("kind", TYPES)
def test_windows_of_any_time_are_those_of_all_rows(
    client: tidegate.Client, tmp_path: Path, kind: str, channels: int
) -> None:
    table = stream(times(1), 2, TYPES[kind][0])
    rows, way = answer(client, tumbling("a", kind), {"a": files(tmp_path, "a", table)}, channels)
    assert alike(rows) == alike(oracle(table, size=SIZE * (1_000 if kind == "nanoseconds" else 1)))
    assert way == (IN_RANGES if kind in CUT else EXCHANGED)


def test_windows_of_two_streams_meet_without_an_exchange(client: tidegate.Client, tmp_path: Path) -> None:
    left, right = stream(times(1), 2), stream(times(3), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right, number=12, group_rows=3_001)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"])
    for channels in (2, 3):
        rows, way = answer(client, joined, splits, channels)
        assert (alike(rows), way) == (alike(oracle(left, right)), IN_RANGES)


def test_streams_of_different_hours_are_cut_at_one_moment(client: tidegate.Client, tmp_path: Path) -> None:
    left, right = stream(times(1), 2), stream(times(3, least=TICKS // 4), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"])
    rows, way = answer(client, joined, splits, 2)
    assert (alike(rows), way) == (alike(oracle(left, right)), IN_RANGES)


def test_the_end_of_one_window_is_not_cut_with_the_beginning_of_another(
    client: tidegate.Client, tmp_path: Path
) -> None:
    left, right = stream(times(1), 2), stream(times(3), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    following = windows.interval_join(tumbling("a"), tumbling("b"), ("window_end", "window_start"), keys=["k"])
    lefts, rights = oracle(left), oracle(right)
    pairs = [one + other for one in lefts for other in rights if one[1] == other[0] and one[2] == other[2] is not None]
    rows, way = answer(client, following, splits, 2)
    assert alike(rows) == alike(pairs)
    assert way == EXCHANGED


def test_windows_of_different_lengths_meet_with_an_exchange(client: tidegate.Client, tmp_path: Path) -> None:
    left, right = stream(times(1), 2), stream(times(3), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    longer = tumbling("b", size=2 * SIZE)
    joined = windows.interval_join(tumbling("a"), longer, "window_start", keys=["k"])
    lefts, rights = oracle(left), oracle(right, size=2 * SIZE)
    pairs = [one + other for one in lefts for other in rights if one[0] == other[0] and one[2] == other[2] is not None]
    rows, way = answer(client, joined, splits, 2)
    assert alike(rows) == alike(pairs)
    assert way == EXCHANGED


@pytest.mark.parametrize("how", ["left", "right", "outer", "left_semi", "left_anti"])
def test_windows_without_a_match_are_on_one_channel(client: tidegate.Client, tmp_path: Path, how: Any) -> None:
    left, right = stream(times(1), 2), stream(times(3, least=0), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"], how=how)
    expected, _ = answer(client, joined, splits, 1)
    rows, way = answer(client, joined, splits, 2)
    assert (alike(rows), way) == (alike(expected), IN_RANGES)


def _one_without_time(table: pa.Table) -> pa.Table:
    mask = np.arange(len(table)) == len(table) // 2
    return table.set_column(0, "t", pa.chunked_array([pa.array(table["t"].to_numpy(), mask=mask)]))


def _shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(9).permutation(len(table))))


@pytest.mark.parametrize("change", [_one_without_time, _shuffled], ids=["a row without a time", "in no order"])
def test_rows_that_row_groups_do_not_separate_are_exchanged(
    client: tidegate.Client, tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    sorted_, other = stream(times(1), 2), change(stream(times(3), 4))
    splits = {"a": files(tmp_path, "a", sorted_), "b": files(tmp_path, "b", other)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"])
    rows, way = answer(client, joined, splits, 2)
    assert alike(rows) == alike(oracle(sorted_, other))
    assert way == EXCHANGED


def test_rows_in_no_order_inside_of_row_groups_are_read_in_ranges(client: tidegate.Client, tmp_path: Path) -> None:
    table = stream(times(1), 2)
    part = ROWS // 8
    parts = [_shuffled(table.slice(at, part)) for at in range(0, ROWS, part)]
    splits = {"a": files(tmp_path, "a", pa.concat_tables(parts), number=8)}
    rows, way = answer(client, tumbling("a"), splits, 2)
    assert (alike(rows), way) == (alike(oracle(table)), IN_RANGES)


def test_row_groups_that_touch_inside_of_a_slice_share_it(client: tidegate.Client, tmp_path: Path) -> None:
    """Every row group ends inside of a slice, with the tick that the next one begins with."""
    table = stream(np.repeat(np.arange(0, ROWS // 40), 40) + 3, 2)
    splits = {
        "a": [*files(tmp_path, "a", table.slice(0, ROWS // 2 + 21)), *files(tmp_path, "b", table.slice(ROWS // 2 + 21))]
    }
    rows, way = answer(client, tumbling("a"), splits, 2)
    assert (alike(rows), way) == (alike(oracle(table)), IN_RANGES)


def test_few_slices_are_not_cut(client: tidegate.Client, tmp_path: Path) -> None:
    """One channel would have nearly all rows."""
    table = stream(times(1, least=0), 2)
    splits = {"a": files(tmp_path, "a", table)}
    rows, way = answer(client, tumbling("a", size=TICKS - 10), splits, 2)
    assert alike(rows) == alike(oracle(table, size=TICKS - 10))
    assert way == EXCHANGED


def _empty_file(table: pa.Table, path: Path) -> None:
    pq.write_table(table.slice(0, 0), path)


def _empty_row_groups(table: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 0), table.slice(0, 10), table.slice(0, 0)):
            writer.write_table(part)


@pytest.mark.parametrize(
    ("write", "rows_more"), [(_empty_file, 0), (_empty_row_groups, 10)], ids=["a file", "row groups"]
)
def test_what_is_empty_changes_no_range(
    client: tidegate.Client, tmp_path: Path, write: Callable[[pa.Table, Path], None], rows_more: int
) -> None:
    """It has no least and no greatest time, and no row that any channel could miss."""
    table = stream(times(1), 2)
    write(table, tmp_path / "other.parquet")
    first, *others = files(tmp_path, "a", table)
    rows, way = answer(client, tumbling("a"), {"a": [first, str(tmp_path / "other.parquet"), *others]}, 2)
    assert alike(rows) == alike(oracle(pa.concat_tables([table, table.slice(0, rows_more)])))
    assert way == IN_RANGES


def test_files_without_rows_have_no_windows(client: tidegate.Client, tmp_path: Path) -> None:
    left, right = stream(times(1), 2), stream(times(3), 4).slice(0, 0)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"], how="left")
    rows, _ = answer(client, joined, splits, 2)
    assert [row[:6] for row in alike(rows)] == alike(oracle(left))
    assert {row[6:] for row in rows} == {(None,) * 6}


def test_sliding_windows_span_ranges(client: tidegate.Client, tmp_path: Path) -> None:
    table = stream(times(1), 2)
    source = sub.read_named_table("a", {"t": sub.i64, "k": sub.i64, "v": sub.i64})
    sliding = windows.sliding(source, "t", 3 * SIZE, SIZE, keys=["k"], measures=[sub.f.sum(sub.col("v")).alias("s")])
    splits = {"a": files(tmp_path, "a", table)}
    expected, _ = answer(client, sliding, splits, 1)
    rows, way = answer(client, sliding, splits, 2)
    assert (alike(rows), way) == (alike(expected), EXCHANGED)


def _moved(rows: list[tuple[Any, ...]], ticks: int) -> list[tuple[Any, ...]]:
    """The same windows, later by these ticks."""
    return [(begin + ticks, end + ticks, *others) for begin, end, *others in rows]


def _later(table: pa.Table, ticks: int) -> pa.Table:
    return table.set_column(0, "t", pa.chunked_array([pa.array(table["t"].to_numpy() + ticks)]))


def test_windows_with_an_offset_are_cut_where_they_begin(client: tidegate.Client, tmp_path: Path) -> None:
    table = stream(times(1), 2)
    splits = {"a": files(tmp_path, "a", table)}
    expected = _moved(oracle(_later(table, -33)), 33)
    for channels in (2, 3):
        rows, way = answer(client, tumbling("a", offset=33), splits, channels)
        assert (alike(rows), way) == (alike(expected), IN_RANGES)


@pytest.mark.parametrize("far", [-(2**63) // SIZE + 100, (2**63) // SIZE - 2 * TICKS // SIZE], ids=["least", "most"])
def test_windows_near_the_ends_of_64_bits_are_read_in_ranges(client: tidegate.Client, tmp_path: Path, far: int) -> None:
    table = stream(times(1, least=0), 2)
    splits = {"a": files(tmp_path, "a", _later(table, far * SIZE))}
    rows, _ = answer(client, tumbling("a"), splits, 2)
    assert alike(rows) == alike(_moved(oracle(table), far * SIZE))


def test_one_file_without_statistics_leaves_all_to_other_ways(client: tidegate.Client, tmp_path: Path) -> None:
    table, last = stream(times(1), 2), stream(times(3)[-500:], 4)
    pq.write_table(last, tmp_path / "unknown.parquet", write_statistics=False)
    splits = {"a": [*files(tmp_path, "a", table), str(tmp_path / "unknown.parquet")]}
    rows, way = answer(client, tumbling("a"), splits, 2)
    assert alike(rows) == alike(oracle(pa.concat_tables([table, last])))
    assert way == EXCHANGED


def test_files_of_shorter_integers_than_the_plans_have_the_same_windows(
    client: tidegate.Client, tmp_path: Path
) -> None:
    table = stream(times(1), 2)
    paths = files(tmp_path, "a", table)
    short = files(tmp_path, "b", table.set_column(0, "t", table["t"].cast(pa.int32())))
    for mixed in (short, [*short[:3], *paths[3:]]):
        rows, _ = answer(client, tumbling("a"), {"a": mixed}, 2)
        assert alike(rows) == alike(oracle(table))


@pytest.mark.parametrize("channels", [2, 3])
def test_streams_without_a_common_time_keep_all_windows(client: tidegate.Client, tmp_path: Path, channels: int) -> None:
    left, right = stream(times(1), 2), stream(times(3, least=10**9), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"], how="outer")
    nothing = (None,) * 6
    rows, way = answer(client, joined, splits, channels)
    assert alike(rows) == alike([row + nothing for row in oracle(left)] + [nothing + row for row in oracle(right)])
    assert way == IN_RANGES


def test_every_run_gives_the_same_rows_in_the_same_order(client: tidegate.Client, tmp_path: Path) -> None:
    left, right = stream(times(1), 2), stream(times(3), 4)
    splits = {"a": files(tmp_path, "a", left), "b": files(tmp_path, "b", right)}
    joined = windows.interval_join(tumbling("a"), tumbling("b"), "window_start", keys=["k"])
    first, *others = (answer(client, joined, splits, 2)[0] for _ in range(4))
    assert all(other == first for other in others)


def test_an_explanation_says_when_channels_read_ranges(client: tidegate.Client) -> None:
    text = client.explain(tumbling("a").to_plan(), channels=2).text
    assert "with ranges of t for the channels if row groups hardly overlap in it" in text
    assert "with ranges of" not in client.explain(tumbling("a").to_plan(), channels=1).text
