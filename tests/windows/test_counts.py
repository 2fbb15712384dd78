"""Windows of a number of rows, per epoch, as changes and final, against windows in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows
from tidegate.relations import RowCount, Span, WindowAggregate

from ..searching import tries
from .naive import MEASURES, WHOLE, Row, Spans, counted
from .running import TIMES, Time, events, rows_of, run
from .test_final_windows import INSERTED, changes, cut, stream_of
from .test_final_windows import run as run_epochs

FUNCTIONS = {**MEASURES, **WHOLE}
SPANS = st.builds(Spans, st.integers(1, 6), st.integers(1, 6))
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-9, 9)), st.sampled_from([None, "a", "b"]), st.integers(-3, 3)),
    max_size=30,
)
NAMES = st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=2)


def _plan(events: Any, spans: Spans, keys: list[str], measures: list[str], **how: Any) -> Any:
    functions = [FUNCTIONS[name][0].alias(name) for name in ("sum", *measures)]
    slide = None if spans.slide == spans.size else spans.slide
    return windows.count(events, "t", spans.size, slide, keys=keys, measures=functions, **how).to_plan()


def _source(time: Time) -> Any:
    return sub.read_named_table("events", {"t": time.plan, "k": sub.string, "v": sub.i64})


def _expected(rows: list[Row], spans: Spans, keys: list[str], measures: list[str]) -> list[tuple[Row, bool]]:
    positions = [("t", "k", "v").index(key) for key in keys]
    return counted(rows, spans, positions, [FUNCTIONS[name][1] for name in ("sum", *measures)])


@settings(max_examples=tries(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(sorted(TIMES)),
    rows=ROWS,
    spans=SPANS,
    keys=st.sampled_from([[], ["k"]]),
    measures=NAMES,
    channels=st.sampled_from([1, 2]),
)
@example("i64", [(0, "a", 2), (5, "a", 1), (0, "a", 1)], Spans(2, 2), ["k"], [], 1)
@example("date", [(0, "a", 2), (5, "a", 1), (0, "a", 1)], Spans(3, 1), [], ["distinct"], 2)
def test_each_window_has_so_many_rows_in_the_order_of_their_times(
    client: tidegate.Client,
    time: str,
    rows: list[Row],
    spans: Spans,
    keys: list[str],
    measures: list[str],
    channels: int,
) -> None:
    kind = TIMES[time]
    splits = [events(kind, rows[:7]), events(kind, rows[7:])]
    answer = run(client, _plan(_source(kind), spans, keys, measures), splits, channels)
    assert Counter(rows_of(kind, answer)) == Counter(row for row, _ in _expected(rows, spans, keys, measures))


@settings(max_examples=tries(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 5)), min_size=1, max_size=3),
    spans=SPANS,
    measures=NAMES,
    channels=st.sampled_from([1, 2]),
)
def test_a_late_row_and_a_deletion_move_the_windows_behind_them(
    client: tidegate.Client,
    epochs: list[tuple[list[Row], int]],
    spans: Spans,
    measures: list[str],
    channels: int,
) -> None:
    kind = TIMES["i64"]
    present: list[Row] = []
    total: Counter[Row] = Counter()
    plan = _plan(_source(kind), spans, ["k"], measures)
    with client.create_task(plan, mode="continuous", channels=channels) as task:
        for rows, deleted in epochs:
            gone, present = present[:deleted], present[deleted:] + rows
            stream = [(row, 1) for row in rows] + [(row, -1) for row in gone]
            answer = task.run_epoch({"events": changes(kind, stream)}).table()
            for *row, weight in rows_of(kind, answer):
                total[tuple(row)] += weight
            assert +total == Counter(row for row, _ in _expected(present, spans, ["k"], measures))


@settings(max_examples=tries(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(INSERTED, min_size=3, max_size=40),
    spans=SPANS,
    delay=st.integers(0, 15),
    lateness=st.integers(0, 6),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    keys=st.sampled_from([[], ["k"]]),
    measures=NAMES,
    channels=st.sampled_from([1, 2]),
)
@example([(t, "a", 1, False) for t in (1, 2, 3, 9, 9)], Spans(2, 5), 0, 0, [4], ["k"], [], 1)
@example([(t, "a", 1, False) for t in (1, 2, 3, 9, 9)], Spans(2, 1), 0, 0, [3, 4], ["k"], ["texts"], 2)
def test_a_final_window_comes_once_when_no_earlier_row_can_come(
    client: tidegate.Client,
    rows: list[Any],
    spans: Spans,
    delay: int,
    lateness: int,
    cuts: list[int],
    keys: list[str],
    measures: list[str],
    channels: int,
) -> None:
    kind = TIMES["i64"]
    epochs = list(cut(stream_of(rows), cuts))
    plan = _plan(windows.watermark(_source(kind), "t", delay), spans, keys, measures, final=True, lateness=lateness)
    with client.create_task(plan, mode="continuous", channels=channels) as task:
        answers = run_epochs(task, [changes(kind, epoch) for epoch in epochs], last=True)
    on_time: Counter[Row] = Counter()
    mark = -1_000
    marks = []
    for epoch in epochs:
        for row, weight in epoch:
            if row[0] is not None:
                mark = max(mark, row[0] - delay) if weight > 0 else mark
                on_time[row] += weight if row[0] + lateness >= mark else 0
        marks.append(mark)
    expected = _expected(list(on_time.elements()), spans, keys, measures)
    total: Counter[Row] = Counter()
    for number, answer in enumerate(answers):
        total.update(row[:-1] for row in rows_of(kind, answer))
        if number < len(epochs) - 1:
            assert total == Counter(row for row, full in expected if full and row[1] + lateness < marks[number])
    assert total == Counter(row for row, _ in expected)


@settings(max_examples=tries(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(INSERTED, min_size=3, max_size=40),
    spans=SPANS,
    cuts=st.lists(st.integers(0, 100), min_size=2, max_size=4),
    channels=st.sampled_from([1, 2]),
)
def test_a_restored_task_goes_on_with_windows_that_are_not_full(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], spans: Spans, cuts: list[int], channels: int
) -> None:
    kind, root = TIMES["i64"], tmp_path_factory.mktemp("checkpoints")
    epochs = [changes(kind, epoch) for epoch in cut(stream_of(rows), cuts)]
    plan = _plan(windows.watermark(_source(kind), "t", 3), spans, ["k"], ["texts"], final=True)
    answers = []
    taken = None
    with tidegate.local(checkpoint_root=str(root)) as client:
        with client.create_task(plan, mode="continuous", channels=channels) as task:
            whole = run_epochs(task, epochs, last=True)
        for number, epoch in enumerate(epochs):
            with client.create_task(plan, mode="continuous", channels=channels, restore=taken) as task:
                if number == len(epochs) - 1:
                    answers += run_epochs(task, [epoch], last=True)
                else:
                    epoch_read = task.run_epoch({"events": epoch}, checkpoint=True)
                    answers.append(epoch_read.table())
                    taken = epoch_read.checkpoint
    assert [answer.to_pylist() for answer in answers] == [answer.to_pylist() for answer in whole]


def test_late_rows_are_those_before_the_watermark(client: tidegate.Client) -> None:
    marked = windows.watermark(_source(TIMES["i64"]), "t")
    late = windows.late_rows(marked, "t", count=3, lateness=2)
    rows: list[Row] = [(t, "a", t) for t in (1, 9, 7, 6, 8)]
    with client.create_task(late.to_plan(), mode="continuous") as task:
        assert task.run_epoch({"events": events(TIMES["i64"], rows)}).table().column("t").to_pylist() == [6]


def test_state_is_the_rows_of_windows_that_are_not_full(client: tidegate.Client) -> None:
    def held(task: tidegate.Task) -> int:
        (final,) = [part for part in task.statistics().operators if part.operator == "FinalCounts"]
        return final.state_bytes

    marked = windows.watermark(_source(TIMES["i64"]), "t")
    with client.create_task(_plan(marked, Spans(10, 10), ["k"], [], final=True), mode="continuous") as task:
        for start in range(0, 40_000, 1_000):
            rows: list[Row] = [(t, f"key {t % 7}", t) for t in range(start, start + 1_000)]
            task.run_epoch({"events": events(TIMES["i64"], rows)})
            assert held(task) < 10_000  # all rows have a hundred times as many bytes


def test_windows_of_very_many_slices_are_put_together_from_parts(client: tidegate.Client) -> None:
    kind, spans = TIMES["i64"], Spans(2_000, 1)
    rows: list[Row] = [(at * 37 % 3_001, "a", at % 11) for at in range(3_001)]
    answer = run(client, _plan(_source(kind), spans, [], ["least"]), [events(kind, rows)])
    assert Counter(rows_of(kind, answer)) == Counter(row for row, _ in _expected(rows, spans, [], ["least"]))


def test_a_measure_that_is_not_used_orders_rows_of_equal_times_all_the_same(client: tidegate.Client) -> None:
    source = sub.read_named_table("events", {"t": sub.i64, "a": sub.i64, "b": sub.i64})
    measures = [sub.f.sum(sub.col(name)).alias(name) for name in ("a", "b")]
    both = windows.count(source, "t", 1, measures=measures)
    data = pa.table({"t": [0, 0, 1], "a": [1, 2, 3], "b": [9, 8, 7]})
    first = sub.col("window_start") == sub.lit(0)
    for mode in ("per_epoch", "continuous"):
        for frame in (both, both.select("window_start", "b")):
            with client.create_task(frame.filter(first).sort("b").to_plan(), mode=mode) as task:
                assert sorted(task.run_epoch({"events": data}).table().column("b").to_pylist()) == [8, 9]


@pytest.mark.parametrize(
    ("count", "field", "words"),
    [
        (RowCount(), "count.size", "must be from 1 to"),
        (RowCount(size=2**62), "count.size", "must be from 1 to"),
        (RowCount(size=2, slide=2**63), "count.slide", "not 9,223,372,036,854,775,808"),
    ],
)
def test_wrong_numbers_of_rows_are_refused(client: tidegate.Client, count: RowCount, field: str, words: str) -> None:
    (problem,) = client.validate(_changed(count=count))
    assert (problem.reason, problem.place.rpartition("detail.")[2]) == ("WRONG_SPAN", field)
    assert words in problem.message


@pytest.mark.parametrize("field", ["size", "slide", "offset", "gap"])
def test_a_number_of_rows_stands_alone(client: tidegate.Client, field: str) -> None:
    (problem,) = client.validate(_changed(**{field: Span(units=1)}))
    assert (problem.reason, problem.place.rpartition("detail.")[2]) == ("WRONG_SPAN", field)


def test_groups_whose_windows_may_never_be_full_get_a_warning(client: tidegate.Client) -> None:
    marked = windows.watermark(_source(TIMES["i64"]), "t")
    for keys, words in ((["k"], "grows with the number of groups"), ([], "")):
        warned = client.warnings(_plan(marked, Spans(6, 4), keys, [], final=True), mode="continuous")
        assert words in "".join(warned)
        assert bool(warned) is bool(keys)


def test_explain_says_what_is_kept(client: tidegate.Client) -> None:
    plan = _plan(windows.watermark(_source(TIMES["i64"]), "t"), Spans(6, 4), ["k"], [], final=True)
    text = client.explain(plan, mode="continuous").text
    assert "final windows of rows by 1 keys, 6 rows, 4 apart, keeps rows of windows that are not full" in text


def _changed(**fields: Any) -> Any:
    built = _plan(_source(TIMES["i64"]), Spans(3, 3), ["k"], [])
    detail = built.relations[-1].root.input.extension_single.detail
    message = WindowAggregate()
    detail.Unpack(message)
    for name, value in fields.items():
        getattr(message, name).CopyFrom(value)
    detail.Pack(message)
    return built
