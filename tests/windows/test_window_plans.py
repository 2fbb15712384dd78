"""Plans with windows of time: what is refused and where, what is shown, how they are built."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from google.protobuf import json_format
from substrait import algebra_pb2 as algebra
from substrait import plan_pb2
from substrait.builders import type as type_

import tidegate
from tidegate import windows
from tidegate.relations import Span, WindowAggregate

from .naive import Spans
from .running import TIMES, events, plan, rows_of, run

CLICKS = sub.read_named_table("clicks", {"at": sub.precision_timestamp(6), "page": sub.string, "day": sub.date})
COUNT = sub.f.count().alias("clicks")


def _changed(change: Any) -> plan_pb2.Plan:
    """An hourly count whose message is changed."""
    built = windows.tumbling(CLICKS, "at", timedelta(hours=1), keys=["page"], measures=[COUNT]).to_plan()
    detail = built.relations[-1].root.input.extension_single.detail
    message = WindowAggregate()
    detail.Unpack(message)
    change(message)
    detail.Pack(message)
    return built


def _aggregate(message: WindowAggregate, **fields: Any) -> None:
    aggregate = algebra.AggregateRel.FromString(message.aggregate)
    aggregate.MergeFrom(algebra.AggregateRel(**fields))
    message.aggregate = aggregate.SerializeToString()


def _set(**fields: Any) -> Any:
    def change(message: WindowAggregate) -> None:
        for name, value in fields.items():
            message.ClearField(name)
            if isinstance(value, Span):
                getattr(message, name).CopyFrom(value)
            elif value is not None:
                setattr(message, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "reason", "field", "words"),
    [
        (_set(size=None), "MISSING", "size", "must have a size, a gap, or a number of rows"),
        (_set(size=Span()), "WRONG_SPAN", "size", "must be in nanoseconds, not in nothing"),
        (_set(size=Span(units=5)), "WRONG_SPAN", "size", "must be in nanoseconds, not in units"),
        (_set(size=Span(nanoseconds=1_500)), "WRONG_SPAN", "size", "1,000 nanoseconds, not 1,500"),
        (_set(size=Span(nanoseconds=0)), "WRONG_SPAN", "size", "above 0"),
        (_set(slide=Span(nanoseconds=-1_000)), "WRONG_SPAN", "slide", "above 0"),
        (_set(offset=Span(units=1)), "WRONG_SPAN", "offset", "nanoseconds"),
        (_set(time=1), "NOT_A_TIME", "time", "column 1 is string?"),
        (_set(time=7), "OUT_OF_RANGE", "time", "there is no column 7"),
        (_set(aggregate=b"\xff"), "MALFORMED", "aggregate", "not protobuf"),
        (
            lambda message: _aggregate(message, groupings=[algebra.AggregateRel.Grouping()]),
            "UNSUPPORTED_GROUPING",
            "aggregate.groupings",
            "one grouping set",
        ),
        (
            lambda message: _aggregate(message, input=algebra.Rel()),
            "MISPLACED_INPUT",
            "aggregate.input",
            "their own input",
        ),
        (
            lambda message: _aggregate(
                message,
                measures=[algebra.AggregateRel.Measure(measure=algebra.AggregateFunction(function_reference=99))],
            ),
            "UNKNOWN_ANCHOR",
            "aggregate.measures[1].measure.function_reference",
            "99",
        ),
    ],
)
def test_a_wrong_message_is_refused_at_its_field(
    client: tidegate.Client, change: Any, reason: str, field: str, words: str
) -> None:
    (problem,) = client.validate(_changed(change))
    assert problem.reason == reason
    assert problem.place == f"relations[0].root.input.extension_single.detail.{field}"
    assert words in problem.message


def test_measures_of_whole_windows_are_refused_where_rows_are_in_too_many(client: tidegate.Client) -> None:
    windowed = plan(TIMES["seconds"], Spans(86_400, 1), ["k"], ["sum", "distinct"])
    (problem,) = client.validate(windowed)
    assert problem.reason == "TOO_MANY_WINDOWS"
    assert "count must see all rows of a window, and a row is in up to 86,400 windows" in problem.message


def test_explain_shows_slices_and_what_needs_whole_windows(client: tidegate.Client) -> None:
    sums = client.explain(plan(TIMES["i64"], Spans(60, 7), ["k"], ["sum"]), channels=2).text
    assert "sliding aggregate, windows of 60 slices, 7 apart, 1 keys: sum" in sums
    assert "exchange 0 to pipeline 2: hash of columns 1" in sums
    counts = client.explain(plan(TIMES["i64"], Spans(60, 10), ["k"], ["sum", "distinct"])).text
    assert "expand, 6 alternatives: count needs all rows of a window" in counts
    hourly = client.explain(plan(TIMES["i64"], Spans(60, 60), ["k"], ["sum"])).text
    assert "aggregate by windows of time, 2 keys: sum" in hourly
    texts = client.explain(plan(TIMES["i64"], Spans(60, 10), ["k"], ["sum"])).text
    assert "dense slices, 2 keys, 1 numbered: sum" in texts


def test_a_plan_in_json_has_windows_too(client: tidegate.Client) -> None:
    built = plan(TIMES["i64"], Spans(10, 4), ["k"], ["sum"])
    text = json_format.MessageToJson(built)
    assert json.loads(text)["relations"][0]["root"]["input"]["extensionSingle"]["detail"]["slide"] == {"units": "4"}
    data = [events(TIMES["i64"], [(3, "a", 1), (11, "a", 5)])]
    assert run(client, text, data).equals(run(client, built, data))


def test_windows_are_part_of_larger_plans(client: tidegate.Client) -> None:
    """Columns of windows can be named, filtered and aggregated again."""
    per_window = windows.sliding(CLICKS, "at", timedelta(hours=2), timedelta(hours=1), keys=["page"], measures=[COUNT])
    busiest = (
        per_window.filter(sub.col("clicks") > sub.lit(1))
        .group_by("page")
        .agg(sub.f.max(sub.col("window_start")).alias("last"))
    )
    clicks = pa.table(
        {
            "at": pa.array([0, 1, 3_600_000_000, 90_000_000_000], pa.timestamp("us")),
            "page": ["a", "a", "a", "b"],
            "day": pa.array([0, 0, 0, 0], pa.int32()).cast(pa.date32()),
        }
    )
    with client.create_task(busiest.to_plan()) as task:
        (row,) = task.run_epoch({"clicks": clicks}).table().to_pylist()
    assert row["page"] == "a"
    assert row["last"].timestamp() % 86_400 == 0


def test_days_are_units_of_dates(client: tidegate.Client) -> None:
    weekly = windows.tumbling(CLICKS, "day", 7, offset=-3, measures=[COUNT]).to_plan()
    clicks = pa.table(
        {
            "at": pa.array([0, 0], pa.timestamp("us")),
            "page": ["a", "a"],
            "day": pa.array([-3, 4], pa.int32()).cast(pa.date32()),
        }
    )
    with client.create_task(weekly) as task:
        rows = rows_of(TIMES["date"], task.run_epoch({"clicks": clicks}).table())
    assert sorted(rows) == [(-3, 4, 1), (4, 11, 1)]


@pytest.mark.parametrize(
    ("time", "size", "words"),
    [
        ("when", 7, "no column is called 'when'; the columns are at, page, day"),
        ("day", "week", "must be a timedelta, an int or a Span"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(time: str, size: Any, words: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=words):
        windows.tumbling(CLICKS, time, size, measures=[COUNT]).to_plan()


def test_a_plan_that_names_no_fields_of_its_structs_is_told_so() -> None:
    """DataFrames of substrait-python cannot name them."""
    rows = sub.read_named_table("events", {"t": sub.i64, "s": type_.struct([type_.i64(), type_.string()])})
    with pytest.raises(
        tidegate.InvalidRequest, match=r"have 2 names \(t, s\), and their types need 4: behind the name"
    ):
        windows.tumbling(rows, "t", 7, measures=[COUNT]).to_plan()


def test_slices_are_functions_that_any_plan_may_call(client: tidegate.Client) -> None:
    function = "extension:io.tidegate:functions_event_time"
    assert function in client.capabilities().dialect


@pytest.mark.parametrize(
    ("time", "read"),
    [
        (sub.precision_timestamp(6), "read events (t, k)"),
        (sub.i64, "read events (t, k)"),
        (sub.date, "read events (t, k)"),
        (sub.precision_timestamp_tz(3), "project, 2 columns"),
    ],
    ids=["timestamp", "integer", "date", "milliseconds with a zone"],
)
def test_slices_of_integer_keys_are_numbered_without_duckdb(client: tidegate.Client, time: Any, read: str) -> None:
    rows = sub.read_named_table("events", {"t": time, "k": sub.i64, "x": sub.string})
    units = 1 if time in (sub.i64, sub.date) else timedelta(milliseconds=1)
    sliding = windows.sliding(rows, "t", 60 * units, 7 * units, keys=["k"], measures=[COUNT])
    explained = client.explain(sliding.to_plan()).text
    _, _, below = explained.partition("operator 3, blocking\n")
    assert [line.strip().partition("  [")[0] for line in below.splitlines()[1:2]] == [f"fragment 4, {read}"]
    assert ("filter" in below) == (read == "project, 2 columns")


def test_explain_shows_windows_in_arrays(client: tidegate.Client) -> None:
    rows = sub.read_named_table("events", {"t": sub.i64, "k": sub.i64, "v": sub.i32, "x": sub.fp64})
    mean, total = sub.f.avg(sub.col("v")).alias("mean"), sub.f.sum(sub.col("x")).alias("total")
    whole = "dense slices, whole windows, 2 keys of whole numbers: avg"
    assert whole in client.explain(windows.tumbling(rows, "t", 10, keys=["k"], measures=[mean]).to_plan()).text
    for keys, measure in ((["k"], total), (["x"], mean), (["k"], sub.f.count(sub.col("v")).distinct().alias("n"))):
        text = client.explain(windows.tumbling(rows, "t", 10, keys=keys, measures=[measure]).to_plan()).text
        assert "dense slices" not in text
        assert "aggregate by windows of time, 2 keys" in text
