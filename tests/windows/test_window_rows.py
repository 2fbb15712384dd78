"""The rows of windows of time, over an epoch's rows, against windows in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows as built_windows

from ..executor.operated_plans import I64, list_of
from ..searching import one_of_each, tries
from .naive import MEASURES, WHOLE, Row, Spans, windows
from .running import TIMES, events, plan, rows_of, run

SPANS = st.builds(Spans, st.integers(1, 13), st.integers(1, 13), st.integers(-20, 20))
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-40, 40)),
        st.sampled_from([None, "", "a", "b"]),
        st.one_of(st.none(), st.integers(-5, 5)),
    ),
    max_size=40,
)
EACH = {**MEASURES, **WHOLE}


def _expected(rows: Sequence[Row], spans: Spans, keys: Sequence[str], measures: Sequence[str]) -> list[Row]:
    return windows(rows, spans, [("t", "k", "v").index(key) for key in keys], [EACH[name][1] for name in measures])


def _cut(rows: list[Row], at: int) -> list[list[Row]]:
    at = min(at, len(rows))
    return [rows[:at], rows[at:]]


@settings(max_examples=tries(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(sorted(TIMES)),
    rows=ROWS,
    spans=SPANS,
    keys=st.sampled_from([(), ("k",), ("v",), ("k", "v")]),
    measures=st.lists(st.sampled_from(sorted(EACH)), unique=True, max_size=4),
    channels=st.sampled_from([1, 2]),
    cut=st.integers(0, 40),
)
@example("i64", [(5, "a", 1)], Spans(7, 3, 2), ("k",), ["sum"], 1, 0)
@example("i64", [(0, "a", 1), (9, "a", 2), (10, "a", 3)], Spans(3, 10), ("k",), ["sum"], 2, 1)
@example("i64", [(0, "a", 1), (1, "a", 2), (2, "a", 2)], Spans(6, 2), ("k",), ["average"], 1, 1)
@example("date", [(-1, None, None)], Spans(12, 5, -3), (), [], 1, 0)
@example("i64", [(0, "a", 1), (3, "a", 1), (4, "a", None)], Spans(7, 2), ("v",), ["sum", "count", "large"], 1, 0)
def test_each_window_has_the_rows_of_its_time(
    client: tidegate.Client,
    time: str,
    rows: list[Row],
    spans: Spans,
    keys: tuple[str, ...],
    measures: list[str],
    channels: int,
    cut: int,
) -> None:
    kind = TIMES[time]
    splits = [events(kind, part) for part in _cut(rows, cut)]
    answer = run(client, plan(kind, spans, keys, measures), splits, channels)
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, spans, keys, measures))


@pytest.mark.parametrize(
    ("slide", "copies", "channels"),
    one_of_each((*spans, channels) for spans in [(60, 1), (1, 60), (7, 9), (90, 1)] for channels in [1, 2]),
)
def test_many_windows_of_many_keys(client: tidegate.Client, slide: int, copies: int, channels: int) -> None:
    count = 20_000 if copies < 60 else 5_000
    rows = [(number * 37 % 5_003 - 2_500, f"key {number * 31 % 97}", number % 11) for number in range(count)]
    spans = Spans(60, slide)
    kind = TIMES["microseconds"]
    splits = [events(kind, rows[:9_999]), events(kind, rows[9_999:])]
    answer = run(client, plan(kind, spans, ["k"], ["sum", "least"]), splits, channels)
    assert math.ceil(spans.size / spans.slide) == copies
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, spans, ["k"], ["sum", "least"]))


@pytest.mark.parametrize("spread", [1, 10**11], ids=["close together", "far apart"])
@pytest.mark.parametrize("time", ["i64", "date", "microseconds", "zoned milliseconds"])
def test_windows_that_share_no_row_of_whole_numbers(client: tidegate.Client, time: str, spread: int) -> None:
    """Of the measures, only the mean is of floats."""
    rows = [
        (number * 37 % 5_003 - 2_500, "a", None if number % 13 == 0 else number * 31 % 97 * spread)
        for number in range(8_000)
    ]
    kind, spans = TIMES[time], Spans(60, 60, 7)
    splits = [events(kind, rows[:4_999]), events(kind, rows[4_999:])]
    measures = [name for name in sorted(MEASURES) if name != "mean"]
    answer = run(client, plan(kind, spans, ["v"], measures), splits)
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, spans, ["v"], measures))


@pytest.mark.parametrize("unit", [1, 10**15])
@pytest.mark.parametrize("spread", [1, 10**11], ids=["close together", "far apart"])
def test_averages_of_whole_numbers_are_those_of_rows(client: tidegate.Client, spread: int, unit: int) -> None:
    """With a distinct measure beside them, the same measures are an aggregate over rows."""
    frame = sub.read_named_table("events", {"t": sub.i64, "k": sub.i64, "v": sub.i64, "n": sub.i16})
    some = [sub.f.avg(sub.col(name)).alias(name) for name in "vn"]
    some.append(sub.f.avg(sub.col("v")).filter(sub.col("k") > sub.lit(3)).alias("filtered"))
    numbers = range(3_000)
    data = pa.table(
        {
            "t": pa.array([number * 37 % 1_009 - 500 for number in numbers], pa.int64()),
            "k": pa.array([number % 7 * spread for number in numbers], pa.int64()),
            "v": pa.array([None if number % 7 == 3 else (number * 7_919 % 101 - 30) * unit for number in numbers]),
            "n": pa.array([number % 11 - 4 for number in numbers], pa.int16()),
        }
    )
    tables = []
    for measures in (some, [*some, sub.f.count(sub.col("n")).distinct().alias("distinct")]):
        windowed = built_windows.tumbling(frame, "t", 50, keys=["k"], measures=measures).to_plan()
        rows = run(client, windowed, [data])
        tables.append(rows.sort_by([("window_start", "ascending"), ("k", "ascending")]))
    assert tables[0].equals(tables[1].drop_columns(["distinct"]))


def test_a_window_of_very_many_slices(client: tidegate.Client) -> None:
    """A day, every second: more windows of one row than fit in one list of DuckDB's."""
    rows: list[Row] = [(0, "a", 1), (40_000, "a", 2), (100_000, "b", 3)]
    spans = Spans(86_400, 1)
    kind = TIMES["seconds"]
    answer = run(client, plan(kind, spans, ["k"], ["sum"]), [events(kind, rows)])
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, spans, ["k"], ["sum"]))


def test_a_row_on_an_edge_is_in_the_window_that_begins_there(client: tidegate.Client) -> None:
    kind = TIMES["i64"]
    answer = run(
        client, plan(kind, Spans(10, 10), [], ["count"]), [events(kind, [(-10, "a", 1), (0, "a", 1), (10, "a", 1)])]
    )
    assert sorted(rows_of(kind, answer)) == [(-10, 0, 1), (0, 10, 1), (10, 20, 1)]


def test_no_rows_have_no_windows(client: tidegate.Client) -> None:
    kind = TIMES["microseconds"]
    for spans in (Spans(10, 10), Spans(10, 3)):
        assert (
            run(client, plan(kind, spans, [], ["count"]), [events(kind, []), events(kind, [(None, "a", 1)])]).num_rows
            == 0
        )


@pytest.mark.parametrize("time", ["seconds", "milliseconds", "microseconds", "date"])
def test_windows_of_the_year_9999_and_of_the_year_1(client: tidegate.Client, time: str) -> None:
    kind = TIMES[time]
    days = [-719_162, 2_932_896]  # 0001-01-01 and 9999-12-31
    ticks = (
        days if time == "date" else [day * 86_400 * {"s": 1, "ms": 10**3, "us": 10**6}[kind.arrow.unit] for day in days]
    )
    spans = Spans(7, 7) if time == "date" else Spans(ticks[1] // days[1], ticks[1] // days[1] // 4)
    rows: list[Row] = [(tick, "a", 1) for tick in ticks]
    answer = run(client, plan(kind, spans, ["k"], ["sum"]), [events(kind, rows)])
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, spans, ["k"], ["sum"]))


@pytest.mark.parametrize(
    ("time", "tick"), [("i64", 2**63 - 3), ("nanoseconds", 2**63 - 3), ("microseconds", 2**63 - 3)]
)
def test_a_window_that_ends_beyond_its_type_is_an_error_that_says_so(
    client: tidegate.Client, time: str, tick: int
) -> None:
    kind = TIMES[time]
    with pytest.raises(tidegate.TaskFailed, match="begins or ends beyond what"):
        run(client, plan(kind, Spans(1_000, 1_000), [], ["count"]), [events(kind, [(tick, "a", 1)])])


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_an_infinite_time_is_an_error_that_says_so(client: tidegate.Client, mode: str) -> None:
    kind = TIMES["microseconds"]
    with (
        client.create_task(plan(kind, Spans(10, 10), [], ["count"]), mode=mode) as task,
        pytest.raises(tidegate.TaskFailed, match="infinite"),
    ):
        task.run_epoch({"events": [events(kind, [(2**63 - 1, "a", 1)])]}).table()


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("tick", [2**63 - 3, -(2**62)])
@pytest.mark.parametrize("time", ["seconds", "milliseconds"])
def test_a_time_that_microseconds_cannot_hold_is_an_error_that_says_so(
    client: tidegate.Client, time: str, tick: int, mode: str
) -> None:
    kind = TIMES[time]
    rows = sub.read_named_table("events", {"t": kind.plan})
    count = [sub.f.count().alias("rows")]
    calendar = built_windows.tumbling(rows, "t", built_windows.days(1), measures=count)
    for built in (plan(kind, Spans(10, 10), [], ["count"]), calendar.to_plan()):
        with (
            client.create_task(built, mode=mode) as task,
            pytest.raises(tidegate.TaskFailed, match="before the year -290308 or after 294247"),
        ):
            task.run_epoch({"events": [events(kind, [(tick, "a", 1)])]}).table()


def test_sums_of_windows_may_pass_through_more_than_their_type(client: tidegate.Client) -> None:
    """A slice's sum is beyond 64 bits, the window's is not."""
    kind = TIMES["i64"]
    rows: list[Row] = [(0, "a", 2**62), (0, "a", 2**62), (1, "a", -(2**62)), (1, "a", -(2**62))]
    answer = run(client, plan(kind, Spans(2, 2), ["k"], ["sum"]), [events(kind, rows)])
    assert rows_of(kind, answer) == [(0, 2, "a", 0)]


@pytest.mark.parametrize("values", [[math.inf, -math.inf, 1.5, 2.5, -0.5], [1e308, 1e308, 1e308, 1.5, 2.5]])
@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_sums_of_floats_may_be_infinite_or_no_number(
    client: tidegate.Client, mode: tidegate.Mode, values: list[float]
) -> None:
    """The tests take warnings for errors, NumPy's as well."""
    frame = built_windows.watermark(sub.read_named_table("events", {"t": sub.i64, "x": sub.fp64}), "t")
    sums = [sub.f.sum(sub.col("x")).alias("s")]
    windowed = built_windows.sliding(frame, "t", 6, 1, measures=sums, final=mode == "continuous")
    data = pa.table({"t": range(100), "x": values * 20})
    with client.create_task(windowed.to_plan(), mode=mode) as task:
        answer = task.run_epoch({"events": data}).table()
    sum_from = dict(zip(answer["window_start"].to_pylist(), answer["s"].to_pylist(), strict=True))
    for start in range(90):
        expected = sum((values * 20)[start : start + 6])
        assert sum_from[start] == pytest.approx(expected, nan_ok=True), start


def test_keys_of_every_type_are_keys(client: tidegate.Client) -> None:
    columns: dict[str, tuple[Any, pa.Array]] = {
        "float": (sub.fp64, pa.array([0.0, -0.0, math.nan, math.nan, None])),
        "list": (list_of(I64), pa.array([[1], [1], [None], [], None], pa.list_(pa.int64()))),
        "decimal": (
            sub.decimal(1, 5),
            pa.array([Decimal("1.0"), Decimal("1.0"), Decimal("2.5"), None, None], pa.decimal128(5, 1)),
        ),
        "bytes": (sub.binary, pa.array([b"", b"", b"a", b"a", None])),
    }
    for name, (type_, values) in columns.items():
        frame = sub.read_named_table("events", {"t": sub.i64, "k": type_})
        data = pa.table({"t": [0, 1, 2, 3, 4], "k": values})
        for channels in (1, 2):
            totals = []
            for slide in (10, 5):
                windowed = built_windows.sliding(frame, "t", 10, slide, keys=["k"], measures=[sub.f.count().alias("n")])
                table = run(client, windowed.to_plan(), [data], channels)
                first = table.filter(pa.compute.equal(table["window_start"], 0))
                totals.append(sorted(zip(map(str, first["k"].to_pylist()), first["n"].to_pylist(), strict=True)))
            assert totals[0] == totals[1], name
            assert sum(count for _, count in totals[0]) == 5, name


@pytest.mark.parametrize("channels", [1, 2])
def test_strict_windows_come_in_the_same_order_again(client: tidegate.Client, channels: int) -> None:
    rows = [(number * 37 % 5_003, f"key {number * 31 % 997}", number) for number in range(30_000)]
    kind = TIMES["i64"]
    windowed = plan(kind, Spans(600, 70), ["k"], ["sum", "mean"])
    one, other = (
        run(client, windowed, [events(kind, rows[at : at + size]) for at in range(0, len(rows), size)], channels)
        for size in (30_000, 7_001)
    )
    assert one.equals(other)


TYPED = {
    "x": (sub.fp64, pa.float64()),
    "n": (sub.i32, pa.int32()),
    "m": (sub.decimal(2, 38), pa.decimal128(38, 2)),
    "s": (sub.string, pa.string()),
    "d": (sub.date, pa.date32()),
    "b": (sub.boolean, pa.bool_()),
    "y": (sub.binary, pa.binary()),
}


def _typed(rows: int) -> pa.Table:
    """Columns of many types with nulls. The floats add up exactly in any order; some decimals are very large."""
    columns: dict[str, list[Any]] = {name: [] for name in TYPED}
    for number in range(rows):
        value = number * 7_919 % 101
        columns["x"].append(value / 4)
        columns["n"].append(value - 50)
        columns["m"].append(Decimal(value - 50) * 10**33 if value % 5 == 0 else Decimal(value) / 100)
        columns["s"].append(f"text {value} of more than twelve bytes")
        columns["d"].append(date(2020, 1, 1) + timedelta(days=value))
        columns["b"].append(value % 3 > 0)
        columns["y"].append(bytes([value]))
    nulled = {
        name: pa.array([None if at % 11 == 3 else value for at, value in enumerate(values)], TYPED[name][1])
        for name, values in columns.items()
    }
    times = pa.array([number * 37 % 1_009 - 500 for number in range(rows)], pa.int64())
    return pa.table({"t": times, "k": pa.array([number % 7 for number in range(rows)]), **nulled})


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("size", "slide"), [(60, 7), (12, 12), (5, 9)])
def test_parts_of_any_type_are_put_together_as_whole_windows_are(
    client: tidegate.Client, size: int, slide: int, channels: int
) -> None:
    """With a distinct measure beside them, the same measures see all rows of each window."""
    frame = sub.read_named_table(
        "events", {"t": sub.i64, "k": sub.i64, **{name: plan for name, (plan, _) in TYPED.items()}}
    )
    some = [sub.f.min(sub.col(name)).alias(f"least {name}") for name in "xnmd"]
    some += [sub.f.max(sub.col(name)).alias(f"greatest {name}") for name in "xnmd"]
    some += [sub.f.sum(sub.col(name)).alias(f"sum {name}") for name in "xnm"]
    some += [sub.f.avg(sub.col(name)).alias(f"mean {name}") for name in "xnm"]
    some += [sub.f.count(sub.col(name)).filter(sub.col("b")).alias(f"count {name}") for name in TYPED]
    some += [sub.f.bool_and(sub.col("b")).alias("all"), sub.f.count().alias("rows")]
    distinct = sub.f.count(sub.col("y")).distinct().alias("distinct")
    tables = []
    for measures in (some, [*some, distinct]):
        windowed = built_windows.sliding(frame, "t", size, slide, keys=["k"], measures=measures).to_plan()
        tables.append(
            run(client, windowed, [_typed(2_000)], channels).sort_by(
                [("window_start", "ascending"), ("k", "ascending")]
            )
        )
    parts, whole = tables
    assert parts.num_rows > 500
    assert parts.equals(whole.drop_columns(["distinct"]))


@pytest.mark.parametrize("size", [1, 7, 2**40 + 1, 2**51, 2**53 - 1, 2**61])
@pytest.mark.parametrize("offset", [0, 3, -(2**40)])
def test_edges_of_windows_are_exact_far_from_1970(client: tidegate.Client, size: int, offset: int) -> None:
    edges = [number * size for number in (-(2**62) // size, -(2**53) // size, -1, 0, 1, 2**53 // size, 2**62 // size)]
    near = [edge + offset + by for edge in edges for by in (-1, 0, 1)]
    near += [sign * (2**53 - 2 * size) + by for sign in (-1, 1) for by in (-1, 0, 1)]
    spans, rows = Spans(size, size, offset), [(at, "a", 1) for at in near if abs(at) < 2**62]
    answer = run(client, plan(TIMES["i64"], spans, [], ["count"]), [events(TIMES["i64"], rows)])
    assert Counter(rows_of(TIMES["i64"], answer)) == Counter(windows(rows, spans, [], [MEASURES["count"][1]]))
