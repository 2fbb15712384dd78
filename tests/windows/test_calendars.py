"""Windows of months and days in time zones, against Python's own calendars and zones."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows
from tidegate.executor.changes import operator_factory
from tidegate.relations import Span

from ..searching import tries
from .naive import EPOCH, MEASURES, WHOLE, Calendar, Row
from .naive import windows as naive_windows
from .running import TIMES, events, plan, rows_of, run
from .test_final_windows import INSERTED, Kind, Naive, changes, cut, stream_of
from .test_final_windows import run as run_epochs

FUNCTIONS: Final = {**MEASURES, **WHOLE}
TICKS: Final = {
    "date": Fraction(86_400_000_000),
    "seconds": Fraction(1_000_000),
    "milliseconds": Fraction(1_000),
    "microseconds": Fraction(1),
    "nanoseconds": Fraction(1, 1_000),
    "zoned milliseconds": Fraction(1_000),
    "zoned microseconds": Fraction(1),
    "zoned nanoseconds": Fraction(1, 1_000),
}
"""The microseconds of each kind's ticks."""
ZONES: Final = {
    "": "1970-01-01",
    "Europe/Berlin": "2026-03-29",
    "America/Sao_Paulo": "2018-11-04",  # clocks skip midnight
    "America/Havana": "2023-11-05",  # clocks show midnight twice
    "America/St_Johns": "2006-10-29",  # clocks are set back over midnight
    "Pacific/Apia": "2011-12-30",  # a day that does not exist
    "Asia/Kathmandu": "1985-12-31",  # by 15 minutes, in the first minute of a year
    "Europe/Paris": "1916-06-14",
    "America/New_York": "2050-11-06",
}
"""A day on which clocks change, by zone."""
SPANS = st.tuples(st.sampled_from(["months", "days"]), st.integers(1, 7), st.integers(1, 7), st.integers(-13, 13))


def _ticks(time: str, zone: str, minutes: int) -> int:
    moment = datetime.fromisoformat(ZONES[zone]).replace(tzinfo=UTC) + timedelta(minutes=minutes)
    return (moment - EPOCH) // timedelta(microseconds=1) // TICKS[time]


def _calendar(time: str, zone: str, spans: tuple[str, int, int, int]) -> Calendar:
    return Calendar(*spans, zone if time.startswith("zoned") else "", TICKS[time])


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(sorted(TICKS)),
    zone=st.sampled_from(sorted(ZONES)),
    moments=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(-1_500, 3_000), st.integers(-200_000, 200_000))), max_size=25
    ),
    spans=SPANS,
    measures=st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=2),
    channels=st.sampled_from([1, 2]),
)
@example("zoned microseconds", "America/Havana", [(235,), (240,), (299,), (300,)], ("days", 1, 1, 0), ["sum"], 1)
@example("zoned microseconds", "America/St_Johns", [(150,), (151,), (160,), (210,)], ("days", 1, 1, 0), ["sum"], 1)
@example("zoned microseconds", "Pacific/Apia", [(-840,), (-700,), (599,), (600,)], ("days", 1, 1, 0), ["sum"], 1)
@example("date", "", [(-1,), (0,)], ("months", 3, 1, -1), ["texts"], 2)
def test_months_and_days_are_those_of_the_zone(
    client: tidegate.Client,
    time: str,
    zone: str,
    moments: list[tuple[int | None]],
    spans: tuple[str, int, int, int],
    measures: list[str],
    channels: int,
) -> None:
    kind, calendar = TIMES[time], _calendar(time, zone, spans)
    rows: list[Row] = [
        (None if minutes is None else _ticks(time, zone, minutes), "ab"[at % 2], at)
        for at, (minutes,) in enumerate(moments)
    ]
    splits = [events(kind, rows[:5]), events(kind, rows[5:])]
    answer = run(client, plan(kind, calendar, ["k"], measures), splits, channels)
    assert Counter(rows_of(kind, answer)) == Counter(_expected(rows, calendar, measures))


def _expected(rows: list[Row], calendar: Calendar, measures: list[str]) -> list[Row]:
    return naive_windows(rows, calendar, [1], [FUNCTIONS[name][1] for name in measures])


@settings(max_examples=tries(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    zone=st.sampled_from(sorted(ZONES)),
    moments=st.lists(st.tuples(st.integers(-5_000, 5_000), st.booleans()), min_size=1, max_size=20),
    spans=SPANS,
    measures=st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=2),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=3),
)
def test_changes_add_up_to_the_windows(
    client: tidegate.Client,
    zone: str,
    moments: list[tuple[int, bool]],
    spans: tuple[str, int, int, int],
    measures: list[str],
    cuts: list[int],
) -> None:
    time = "zoned microseconds"
    kind, calendar = TIMES[time], _calendar(time, zone, spans)
    stream = stream_of([(_ticks(time, zone, minutes), "a", minutes % 7, gone) for minutes, gone in moments])
    total: Counter[Row] = Counter()
    present: Counter[Row] = Counter()
    with client.create_task(plan(kind, calendar, ["k"], measures), mode="continuous") as task:
        for epoch in cut(stream, cuts):
            for *row, weight in rows_of(kind, task.run_epoch({"events": changes(kind, epoch)}).table()):
                total[tuple(row)] += weight
            for row, weight in epoch:
                present[row] += weight
            assert +total == Counter(_expected(list(present.elements()), calendar, measures))


@settings(max_examples=tries(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(["date", "milliseconds", "zoned microseconds", "zoned nanoseconds"]),
    zone=st.sampled_from(sorted(ZONES)),
    rows=st.lists(INSERTED, min_size=8, max_size=40),
    spans=SPANS,
    hours=st.tuples(st.integers(0, 200), st.integers(0, 100)),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=4),
    measures=st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=2),
    channels=st.sampled_from([1, 2]),
)
@example("zoned microseconds", "Europe/Berlin", [(0, "a", 1, False)] * 3, ("days", 1, 1, 0), (0, 0), [1], ["sum"], 1)
def test_each_final_window_comes_once_when_the_watermark_has_passed_its_midnight(
    client: tidegate.Client,
    time: str,
    zone: str,
    rows: list[Any],
    spans: tuple[str, int, int, int],
    hours: tuple[int, int],
    cuts: list[int],
    measures: list[str],
    channels: int,
) -> None:
    kind = TIMES[time]
    delay, lateness = (int(hour * 3_600_000_000 // TICKS[time]) for hour in hours)
    calendar = Kind(_calendar(time, zone, spans), 1, delay, lateness)
    stream = stream_of(
        [(None if t is None else _ticks(time, zone, t * 600), *values) for t, *values in rows],
    )
    epochs, naive, late, marks = list(cut(stream, cuts)), Naive(calendar), 0, []
    for epoch in epochs:
        for row, weight in epoch:
            naive.add(row, weight)
        marks.append(naive.watermark)
    expected = calendar.answers(list(naive.on_time.elements()), ["k"], measures)
    with client.create_task(calendar.plan(kind, ["k"], measures), mode="continuous", channels=channels) as task:
        answers = run_epochs(task, [changes(kind, epoch) for epoch in epochs], last=True)
    total: Counter[Row] = Counter()
    for number, answer in enumerate(answers):
        total.update(row[:-1] for row in rows_of(kind, answer))
        if number < len(epochs) - 1:
            ended = marks[number]
            assert total == Counter(row for row in expected if ended is not None and row[1] + lateness <= ended)
    assert total == Counter(expected)
    with client.create_task(calendar.late_rows(kind).to_plan(), mode="continuous", channels=channels) as task:
        for answer in run_epochs(task, [changes(kind, epoch) for epoch in epochs], last=True):
            late += sum(answer.column("_weight").to_pylist())
    in_a_window = {row for row in naive.late if list(calendar.spans.of(row[0]))} if calendar.spans else set()
    assert late == sum(weight for row, weight in naive.late.items() if row in in_a_window)


def test_a_restored_task_goes_on_with_its_open_days(tmp_path: Any) -> None:
    kind = Kind(_calendar("zoned microseconds", "Europe/Berlin", ("days", 2, 1, 0)), 1, 0, 0)
    column = TIMES["zoned microseconds"]
    times = [_ticks("zoned microseconds", "Europe/Berlin", hour * 60) for hour in range(0, 100, 7)]
    epochs = [changes(column, [((time, "a", 1), 1)]) for time in times]
    built = kind.plan(column, ["k"], ["sum", "texts"])
    with tidegate.local(checkpoint_root=str(tmp_path)) as client:
        with client.create_task(built, mode="continuous") as task:
            whole = [task.run_epoch({"events": epoch}).table().to_pylist() for epoch in epochs]
        answers, taken = [], None
        for epoch in epochs:
            with client.create_task(built, mode="continuous", restore=taken) as task:
                read = task.run_epoch({"events": epoch}, checkpoint=True)
                answers.append(read.table().to_pylist())
                taken = read.checkpoint
    assert answers == whole
    assert sum(map(len, whole)) == 4


def test_state_is_the_slices_of_open_days(client: tidegate.Client) -> None:
    source = sub.read_named_table("events", {"t": sub.precision_timestamp_tz(6), "k": sub.i64})
    days = {"size": windows.days(7), "slide": windows.days(1), "zone": "Europe/Berlin"}
    count = sub.f.count().alias("n")
    frame = windows.sliding(windows.watermark(source, "t"), "t", **days, keys=["k"], measures=[count], final=True)
    sizes = []
    with client.create_task(frame.to_plan(), mode="continuous") as task:
        for day in range(60):
            at = pa.array([day * 86_400_000_000] * 1_000, pa.timestamp("us", "UTC"))
            task.run_epoch({"events": pa.table({"t": at, "k": range(1_000)})})
            kept = [part for part in task.statistics().operators if part.operator.startswith(("Group", "Final"))]
            sizes.append(sum(part.state_bytes for part in kept))
    assert max(sizes[30:]) <= 1.2 * max(sizes[:30])


def test_a_calendar_is_asked_once_for_each_watermark(client: tidegate.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    number = operator_factory._number
    monkeypatch.setattr(operator_factory, "_number", lambda answer: asked.append(1) or number(answer))
    source = sub.read_named_table("events", {"t": sub.precision_timestamp_tz(6), "k": sub.i64})
    count = sub.f.count().alias("n")
    frame = windows.tumbling(
        windows.watermark(source, "t"), "t", windows.days(1), keys=["k"], measures=[count], final=True
    )
    counts = []
    with client.create_task(frame.to_plan(), mode="continuous") as task:
        for hour in (0, 9, 18, 18, 27, 27):
            at = pa.array([hour * 3_600_000_000], pa.timestamp("us", "UTC"))
            task.run_epoch({"events": pa.table({"t": at, "k": [1]})})
            counts.append(len(asked))
            asked.clear()
    assert counts == [1, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("time", ["date", "seconds", "milliseconds", "microseconds", "zoned microseconds"])
@pytest.mark.parametrize("unit", ["months", "days"])
def test_the_years_1_and_9999_have_months_and_days(client: tidegate.Client, time: str, unit: str) -> None:
    moments = [datetime(1, 8, 5, 12, tzinfo=UTC), datetime(9999, 4, 20, 12, tzinfo=UTC)]
    ticks = [(moment - EPOCH) // timedelta(microseconds=1) // TICKS[time] for moment in moments]
    rows: list[Row] = [(int(tick), "a", 1) for tick in ticks]
    calendar = _calendar(time, "Europe/Berlin", (unit, 1, 1, 0))
    answer = run(client, plan(TIMES[time], calendar, ["k"], ["sum"]), [events(TIMES[time], rows)])
    assert Counter(rows_of(TIMES[time], answer)) == Counter(_expected(rows, calendar, ["sum"]))


@pytest.mark.parametrize(
    ("time", "tick"), [("nanoseconds", 2**63 - 3), ("microseconds", 2**63 - 3), ("date", 2**31 - 3)]
)
def test_a_month_that_ends_beyond_its_type_is_an_error_that_says_so(
    client: tidegate.Client, time: str, tick: int
) -> None:
    calendar = _calendar(time, "", ("months", 1, 1, 0))
    with pytest.raises(tidegate.TaskFailed, match="begins or ends beyond what"):
        run(client, plan(TIMES[time], calendar, [], ["count"]), [events(TIMES[time], [(tick, "a", 1)])])


def test_an_infinite_time_is_an_error_that_says_so(client: tidegate.Client) -> None:
    for time in ("microseconds", "zoned microseconds"):
        calendar = _calendar(time, "Europe/Berlin", ("days", 1, 1, 0))
        with pytest.raises(tidegate.TaskFailed, match="infinite"):
            run(client, plan(TIMES[time], calendar, [], ["count"]), [events(TIMES[time], [(2**63 - 1, "a", 1)])])


ZONED = sub.read_named_table("events", {"t": sub.precision_timestamp_tz(6), "n": sub.i64, "d": sub.date})


@pytest.mark.parametrize(
    ("time", "lengths", "reason", "field", "words"),
    [
        ("t", {"size": Span(days=1), "zone": "Europe/Nowhere"}, "UNKNOWN_TIME_ZONE", "zone", "is no time zone"),
        ("t", {"size": Span(days=1), "zone": "x' OR 'y"}, "UNKNOWN_TIME_ZONE", "zone", "is no time zone"),
        ("d", {"size": Span(days=1), "zone": "Europe/Berlin"}, "WRONG_SPAN", "zone", "leave the zone out"),
        ("t", {"size": timedelta(days=1), "zone": "UTC"}, "WRONG_SPAN", "zone", "only windows of months or days"),
        ("n", {"size": Span(months=1)}, "WRONG_SPAN", "size", "has no calendar"),
        ("t", {"size": Span(months=0), "slide": Span(months=1)}, "WRONG_SPAN", "size", "must be 1 to"),
        ("t", {"size": Span(months=1), "slide": Span(days=1)}, "WRONG_SPAN", "slide", "must be, too, not in days"),
        ("t", {"size": Span(days=2), "offset": Span(days=2**31)}, "WRONG_SPAN", "offset", "must be -2,147"),
        ("t", {"size": timedelta(days=1), "slide": Span(days=1)}, "WRONG_SPAN", "slide", "in nanoseconds, not in days"),
    ],
)
def test_windows_that_no_calendar_has_are_refused(
    client: tidegate.Client, time: str, lengths: dict[str, Any], reason: str, field: str, words: str
) -> None:
    lengths = {"slide": lengths["size"], **lengths}
    built = windows.sliding(ZONED, time, **lengths, measures=[sub.f.count().alias("n")])
    (problem,) = client.validate(built.to_plan())
    assert (problem.reason, problem.place.rpartition("detail.")[2]) == (reason, field)
    assert words in problem.message


def test_a_zone_is_known_in_letters_of_any_case(client: tidegate.Client) -> None:
    for zone in ("europe/berlin", "UTC", "utc", "Etc/UTC"):
        built = windows.tumbling(ZONED, "t", windows.days(1), zone=zone, measures=[sub.f.count().alias("n")])
        assert not client.validate(built.to_plan())


def test_explain_says_the_calendar(client: tidegate.Client) -> None:
    kind = Kind(_calendar("zoned microseconds", "Europe/Berlin", ("days", 2, 1, 0)), 1, 0, 0)
    text = client.explain(kind.plan(TIMES["zoned microseconds"], ["k"], ["sum"]), mode="continuous").text
    assert "final windows by 1 keys, size 2 days, slide 1 in Europe/Berlin, keeps slices and running results" in text
