"""The different keys of windows, each as soon as a row has them, against plain Python that goes row by row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows

from ..searching import tries
from .naive import Calendar, Row, Spans
from .running import SEVERAL, TIMES, Time, events, lengths, rows_of, run
from .test_final_windows import INSERTED, Kind, Naive, changes, cut, stream_of

SPANS = st.builds(lambda size, offset: Spans(size, size, offset), st.integers(1, 12), st.integers(-9, 9))
KINDS = st.builds(Kind, SPANS, st.just(1), st.integers(0, 15), st.integers(0, 6))


def plan(kind: Kind, time: Time, keys: list[str], *, declared: bool = True) -> Any:
    assert kind.spans is not None
    of_spans = {name: span for name, span in lengths(time, kind.spans).items() if name != "slide"}
    rows = kind.source(time) if declared else sub.read_named_table("events", {"t": time.plan, "k": sub.string})
    return windows.distinct(rows, "t", keys=keys, **of_spans, lateness=time.span(kind.lateness)).to_plan()


def naive_distinct(kind: Kind, rows: Counter[Row], keys: list[str]) -> set[Row]:
    assert kind.spans is not None
    positions = [("t", "k", "v").index(key) for key in keys]
    there = [row for row, copies in rows.items() if copies > 0]
    return {(*bounds, *(row[at] for at in positions)) for row in there for bounds in kind.spans.of(row[0])}


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(["i64", "date", "microseconds", "zoned nanoseconds"]),
    kind=KINDS,
    rows=st.lists(INSERTED, min_size=3, max_size=40),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    keys=st.sampled_from([["k"], ["k", "v"]]),
    channels=st.sampled_from([1, 2]),
)
def test_the_keys_of_rows_on_time_come_with_their_first_row_however_the_stream_is_cut(
    client: tidegate.Client, time: str, kind: Kind, rows: list[Any], cuts: list[int], keys: list[str], channels: int
) -> None:
    column, naive = TIMES[time], Naive(kind)
    total: Counter[Row] = Counter()
    with client.create_task(plan(kind, column, keys), mode="continuous", channels=channels) as task:
        for epoch in cut(stream_of(rows), cuts):
            for row, weight in epoch:
                naive.add(row, weight)
            for answer in rows_of(column, task.run_epoch({"events": changes(column, epoch)}).table()):
                total[answer[:-1]] += answer[-1]
            expected = naive_distinct(kind, naive.on_time, keys)
            assert {row: copies for row, copies in total.items() if copies} == dict.fromkeys(expected, 1)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_per_epoch_task_gives_the_different_keys_of_its_epoch(client: tidegate.Client, channels: int) -> None:
    time, kind = TIMES["seconds"], Kind(Spans(10, 10, 3), 1, 0, 0)
    rows = [(at % 40 - 20, "ab"[at % 2], at % 3) for at in range(60)]
    answer = run(client, plan(kind, time, ["k"]), [events(time, rows[:30]), events(time, rows[30:])], channels)
    assert Counter(rows_of(time, answer)) == Counter(naive_distinct(kind, Counter(rows), ["k"]))


def test_days_of_a_time_zone_are_windows_too(client: tidegate.Client) -> None:
    from fractions import Fraction

    berlin = Calendar("days", 1, 1, 0, "Europe/Berlin", Fraction(1_000_000))
    kind, time = Kind(berlin, 1, 0, 0), TIMES["zoned microseconds"]
    at = pa.array(["2026-03-28T22:30:00Z", "2026-03-28T23:30:00Z", "2026-03-29T21:59:00Z", "2026-03-29T22:00:00Z"])
    rows = pa.table({"t": at.cast(pa.timestamp("us", "UTC")), "k": ["a"] * 4, "v": pa.array([1] * 4, pa.int64())})
    with client.create_task(plan(kind, time, ["k"]), mode="continuous", **SEVERAL[1]) as task:
        starts = task.run_epoch({"events": rows}).table().column("window_start").to_pylist()
    assert [f"{start:%d %H}" for start in starts] == ["27 23", "28 23", "29 22"]


def test_the_keys_of_closed_windows_are_forgotten(client: tidegate.Client) -> None:
    time, kind = TIMES["i64"], Kind(Spans(1_000, 1_000), 1, 0, 0)
    sizes = []
    with client.create_task(plan(kind, time, ["k", "v"]), mode="continuous") as task:
        for start in range(0, 100_000, 5_000):
            rows = [(at, "a", at) for at in range(start, start + 5_000)]
            assert task.run_epoch({"events": events(time, rows)}).table().num_rows == len(rows)
            sizes.append(sum(operator.state_bytes for operator in task.statistics().operators))
    assert max(sizes[8:]) <= 1.2 * max(sizes[:8])


def test_the_task_goes_on_from_a_checkpoint(tmp_path: Any) -> None:
    time, kind = TIMES["i64"], Kind(Spans(10, 10), 1, 5, 0)
    with tidegate.local(checkpoint_root=tmp_path) as client:
        with client.create_task(plan(kind, time, ["k"]), mode="continuous") as task:
            saved = task.run_epoch({"events": events(time, [(1, "a", 1), (12, "b", 1)])}, checkpoint=True)
        with client.create_task(plan(kind, time, ["k"]), mode="continuous", restore=saved.checkpoint) as task:
            answer = task.run_epoch({"events": events(time, [(2, "a", 2), (13, "a", 1), (14, "b", 1)])}).table()
    assert rows_of(time, answer) == [(10, 20, "a", 1)]


def test_windows_with_measures_or_that_overlap_do_not_come_at_once(client: tidegate.Client) -> None:
    time = TIMES["i64"]
    for spans, measures in ((Spans(10, 10), ["count"]), (Spans(10, 5), [])):
        frame = Kind(spans, 1, 0, 0).plan(time, ["k"], measures)
        assert [problem.reason for problem in client.validate(with_field(frame))] == ["AT_ONCE"]


def with_field(frame: Any) -> Any:
    """The plan with `at_once` in its windows."""
    from tidegate.relations import WindowAggregate

    detail = frame.relations[-1].root.input.extension_single.detail
    message = WindowAggregate()
    detail.Unpack(message)
    message.final.at_once = True
    detail.Pack(message)
    return frame


def test_explain_says_what_is_kept(client: tidegate.Client) -> None:
    text = client.explain(plan(Kind(Spans(10, 10), 1, 0, 0), TIMES["i64"], ["k"]), mode="continuous").text
    assert "distinct, 1 inputs, size 10, keeps rows of open windows" in text
