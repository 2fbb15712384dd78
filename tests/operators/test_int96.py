"""Timestamps that Parquet files store as INT96 are instants: the same ones as in the form of today, or refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.operators.sources.split_pieces import native
from tidegate.proto.errors import SplitError

from .data import column, pieces_of, scanned

INSTANT = pa.timestamp("us", "UTC")
TIMES = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1500, 6, 1, 1, 2, 3, 4, dt.UTC),
    dt.datetime(1677, 9, 21, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
    None,
    dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.UTC),
    dt.datetime(2262, 4, 12, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC),
]
BEFORE_YEAR_1, YEAR_10000 = -62_135_596_800_000_001, 253_402_300_800_000_000


def int96(path: Path, table: pa.Table, **options: object) -> str:
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **options)
    return str(path)


def table_of(times: list[object]) -> pa.Table:
    return pa.table({"t": pa.array(times, INSTANT)})


def answer(root: Path, splits: list[str], plan: object, **options: object) -> pa.Table:
    with tidegate.local(roots=[root]) as client, client.create_task(plan, **options) as task:
        for split in splits:
            task.add_split("t", split)
        task.request_barrier()
        return task.read_epoch()


def test_instants_of_all_years_come_as_they_are_in_every_time_zone(root: Path) -> None:
    path = int96(root / "t.parquet", table_of(TIMES))
    plan = sub.read_named_table("t", {"t": sub.precision_timestamp_tz(6)}).to_plan()
    assert answer(root, [path], plan, time_zone="America/New_York")["t"].cast(INSTANT).to_pylist() == TIMES


def test_instants_inside_of_lists_structs_and_maps_come_as_they_are(root: Path) -> None:
    times = pa.array(TIMES, INSTANT)
    lists = pa.ListArray.from_arrays([0, 3, 3, 8], times)
    structs = pa.StructArray.from_arrays([pa.array(range(8)), times], ["n", "at"])
    maps = pa.MapArray.from_arrays([0, 2, 5, 8], pa.array(list("abcdefgh")), times)
    table = pa.table({"l": lists, "s": structs.slice(0, 3), "m": maps, "b": [True, False, True]})
    columns = [column(field.name, field.type) for field in table.schema]
    assert scanned(columns, pieces_of(int96(root / "t.parquet", table), root, columns)) == table.to_pylist()


def test_splits_in_both_forms_mix(root: Path) -> None:
    """A file of today's form is read by DuckDB, one of INT96 is not: DuckDB takes it for local times."""
    old, new = int96(root / "old.parquet", table_of(TIMES)), str(root / "new.parquet")
    pq.write_table(pa.table({"t": pa.array(TIMES, INSTANT)}), new)
    wanted = [column("t", INSTANT)]
    assert [native(pieces_of(path, root, wanted), wanted) for path in (new, old)] == [True, False]
    assert not native([*pieces_of(new, root, wanted), *pieces_of(old, root, wanted)], wanted)
    plan = sub.read_named_table("t", {"t": sub.precision_timestamp_tz(6)}).to_plan()
    for splits in ([new, old], [old, new]):
        table = answer(root, splits, plan, time_zone="Asia/Tokyo")
        assert table["t"].cast(INSTANT).to_pylist() == [*TIMES, *TIMES]


def test_a_filter_keeps_the_instants_of_each_row_group(root: Path) -> None:
    times = [dt.datetime(1999 + n, 1, 1, tzinfo=dt.UTC) for n in range(10)]
    path = int96(root / "t.parquet", table_of(times), row_group_size=2)
    frame = sub.read_named_table("t", {"t": sub.precision_timestamp_tz(6)})
    later = frame.filter(sub.col("t") > sub.lit(dt.datetime(2004, 1, 1, tzinfo=dt.UTC), sub.precision_timestamp_tz(6)))
    assert answer(root, [path], later.to_plan())["t"].cast(INSTANT).to_pylist() == times[6:]


def test_a_plan_that_wants_times_without_a_time_zone_is_told_what_the_file_has(root: Path) -> None:
    path = int96(root / "t.parquet", table_of(TIMES))
    plan = sub.read_named_table("t", {"t": sub.precision_timestamp(6)}).to_plan()
    with pytest.raises(tidegate.TidegateError, match=r"INT96, the form of instants: declare it as") as failure:
        answer(root, [path], plan)
    assert failure.value.reason == "COLUMN_TYPE"


@pytest.mark.parametrize("micros", [BEFORE_YEAR_1, YEAR_10000])
@pytest.mark.parametrize(
    "shape", [INSTANT, pa.list_(INSTANT), pa.struct([("at", INSTANT)]), pa.map_(pa.string(), INSTANT)]
)
def test_instants_outside_of_the_years_1_to_9999_are_refused(root: Path, micros: int, shape: pa.DataType) -> None:
    time = pa.scalar(micros, INSTANT)
    values = {"list": [time], "struct": {"at": time}, "map": [("a", time)]}
    inside = next((value for name, value in values.items() if str(shape).startswith(name)), time)
    path = int96(root / "t.parquet", pa.table({"t": pa.array([inside], shape)}))
    wanted = [column("t", shape)]
    with pytest.raises(SplitError, match="'t' has an instant in INT96 outside of the years 1 to 9999") as failure:
        scanned(wanted, pieces_of(path, root))
    assert failure.value.reason == "SPLIT_UNREADABLE"


def test_an_instant_that_wraps_round_to_one_of_today_is_refused(root: Path) -> None:
    """584,542 years behind 2024: Arrow's microseconds are then those of 2024."""
    path = int96(root / "t.parquet", table_of(TIMES[5:6]), use_dictionary=False, compression="none")
    day = (TIMES[5].date() - dt.date(1970, 1, 1)).days + 2_440_588
    data, wraps = Path(path).read_bytes(), 2**64 // (86_400 * 1_000_000) + 1
    stored, later = (number.to_bytes(4, "little") for number in (day, day + wraps))
    assert data.count(stored) == 1
    Path(path).write_bytes(data.replace(stored, later))
    assert 2000 < pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()["t"][0].as_py().year < 2050
    with pytest.raises(SplitError, match="outside of the years 1 to 9999"):
        scanned([column("t", INSTANT)], pieces_of(path, root))


@pytest.mark.parametrize(
    ("written", "is_old"),
    [
        ({"org.apache.spark.legacyINT96": "", "org.apache.spark.version": "3.5.1"}, True),
        ({"org.apache.spark.version": "3.0.3"}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.5.1"}, False),
        ({"org.apache.spark.version": "4.1.0-preview1"}, False),
        ({}, False),
    ],
)
def test_instants_before_1900_in_the_calendar_of_spark_2_are_refused(
    root: Path, written: dict[str, str], is_old: bool
) -> None:
    wanted = [column("t", INSTANT)]
    late = int96(root / "late.parquet", table_of(TIMES[3:]).replace_schema_metadata(written))
    assert [row["t"] for row in scanned(wanted, pieces_of(late, root))] == TIMES[3:]
    early = pieces_of(int96(root / "early.parquet", table_of(TIMES).replace_schema_metadata(written)), root)
    if is_old:
        with pytest.raises(SplitError, match="the calendar of Spark 2"):
            scanned(wanted, early)
    else:
        assert [row["t"] for row in scanned(wanted, early)] == TIMES
