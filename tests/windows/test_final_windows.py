"""Final windows of continuous tasks, against plain Python that goes over the whole stream row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tidegate
from tidegate import windows

from ..searching import tries
from .naive import MEASURES, WHOLE, Calendar, Row, Spans, sessions
from .naive import windows as naive_windows
from .running import TIMES, Time, events, lengths, rows_of

FUNCTIONS = {**MEASURES, **WHOLE}
INSERTED = st.tuples(
    st.one_of(st.none(), st.integers(-30, 60)), st.sampled_from([None, "a", "b"]), st.integers(-3, 3), st.booleans()
)
"""A row, and whether it is deleted again later."""


@dataclass(frozen=True)
class Kind:
    """Final windows of spans, or sessions of a gap; all in ticks."""

    spans: Spans | Calendar | None
    gap: int
    delay: int
    lateness: int
    ahead: int | None = None

    def plan(self, time: Time, keys: Sequence[str], measures: Sequence[str], names: Sequence[str] = ("events",)) -> Any:
        return self.windows(time, keys, measures, names).to_plan()

    def windows(
        self, time: Time, keys: Sequence[str], measures: Sequence[str], names: Sequence[str] = ("events",)
    ) -> Any:
        built = {"keys": keys, "measures": [FUNCTIONS[name][0].alias(name) for name in measures], "final": True}
        built["lateness"] = time.span(self.lateness)
        rows, *others = (self.source(time, name) for name in names)
        rows = rows.union(*others) if others else rows
        if self.spans is None:
            return windows.session(rows, "t", time.span(self.gap), **built)
        return windows.sliding(rows, "t", **lengths(time, self.spans), **built)

    def late_rows(self, time: Time) -> Any:
        spans, lateness = self.spans, time.span(self.lateness)
        if spans is None:
            return windows.late_rows(self.source(time), "t", gap=time.span(self.gap), lateness=lateness)
        return windows.late_rows(self.source(time), "t", **lengths(time, spans), lateness=lateness)

    def source(self, time: Time, name: str = "events") -> Any:
        rows = sub.read_named_table(name, {"t": time.plan, "k": sub.string, "v": sub.i64})
        ahead = None if self.ahead is None else time.span(self.ahead)
        return windows.watermark(rows, "t", time.span(self.delay), ahead=ahead)

    def is_late(self, time: int, watermark: int) -> bool:
        if self.spans is None:
            return time + self.lateness < watermark
        return any(end + self.lateness <= watermark for _, end in self.spans.of(time))

    def answers(self, rows: Sequence[Row], keys: Sequence[str], measures: Sequence[str]) -> list[Row]:
        positions, functions = [("t", "k", "v").index(key) for key in keys], [FUNCTIONS[name][1] for name in measures]
        if self.spans is None:
            return sessions(rows, self.gap, positions, functions)
        return naive_windows(rows, self.spans, positions, functions)


class Naive:
    """The rows on time, and the late rows, of a stream that is looked at row by row."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._greatest: int | None = None
        self._first: int | None = None
        self.on_time: Counter[Row] = Counter()
        self.late: Counter[Row] = Counter()

    @property
    def watermark(self) -> int | None:
        return None if self._greatest is None else self._greatest - self._kind.delay

    def add(self, row: Row, weight: int) -> None:
        time = row[0]
        if time is not None:
            if weight > 0:
                self._move(time)
            late = self.watermark is not None and self._kind.is_late(time, self.watermark)
            (self.late if late else self.on_time)[row] += weight

    def _move(self, time: int) -> None:
        ahead = self._kind.ahead
        if ahead is None:
            self._greatest = time if self._greatest is None else max(time, self._greatest)
        elif self._greatest is not None:
            self._greatest = max(self._greatest, min(time, self._greatest + ahead))
        elif self._first is None or time < self._first - ahead:
            self._first = time
        else:
            self._greatest = min(max(self._first, time), self._first + ahead)


def stream_of(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Row, int]]:
    """The rows with their weights; every deletion comes seven changes behind its insertion, or at the end."""
    stream: list[tuple[Row, int]] = []
    waiting: list[tuple[int, Row]] = []
    for *row, deleted in rows:
        stream.append((tuple(row), 1))
        if deleted:
            waiting.append((len(stream) + 7, tuple(row)))
        while waiting and waiting[0][0] <= len(stream):
            stream.append((waiting.pop(0)[1], -1))
    return stream + [(row, -1) for _, row in waiting]


def changes(time: Time, stream: Sequence[tuple[Row, int]]) -> tidegate.Changes:
    table = events(time, [row for row, _ in stream])
    return tidegate.Changes(table.append_column("_weight", pa.array([weight for _, weight in stream], pa.int64())))


def cut(stream: Sequence[tuple[Row, int]], cuts: Sequence[int]) -> Iterator[Sequence[tuple[Row, int]]]:
    positions = [0, *sorted(position % (len(stream) + 1) for position in cuts), len(stream)]
    for first, last in pairwise(positions):
        yield stream[first:last]


def run(task: tidegate.Task, splits: Sequence[tidegate.Changes], *, last: bool) -> list[list[Row]]:
    """The rows of each epoch, the weight last; the last split ends the source."""
    answers = [task.run_epoch({"events": split}).table() for split in (splits[:-1] if last else splits)]
    if last:
        task.add_split("events", splits[-1].data, change_column="_weight")
        task.no_more_splits()
        answers += [epoch.table() for epoch in task.epochs()]
    return answers


MANY_SLICES = st.sampled_from([Spans(60, 1), Spans(97, 60, -9), Spans(122, 14, 3)])
KINDS = st.builds(
    Kind,
    st.one_of(st.none(), st.builds(Spans, st.integers(1, 12), st.integers(1, 12), st.integers(-9, 9)), MANY_SLICES),
    st.integers(1, 9),
    st.integers(0, 15),
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(1, 20)),
)


@settings(max_examples=tries(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(sorted(set(TIMES) - {"i8"})),
    kind=KINDS,
    rows=st.lists(INSERTED, min_size=8, max_size=40),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    keys=st.sampled_from([[], ["k"], ["k", "v"]]),
    measures=st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=2),
    channels=st.sampled_from([1, 2]),
)
@example("i64", Kind(Spans(10, 10), 1, 0, 0), [(0, "a", 1, False), (10, "a", 1, False)], [1], [], ["count"], 1)
@example("i64", Kind(Spans(10, 5), 1, 0, 0), [(t, "a", 1, False) for t in (3, 11, 7, 30)], [2], [], ["count"], 1)
@example("i64", Kind(Spans(10, 5), 1, 0, 0), [(t, "a", t, False) for t in (3, 4, 4, 30)], [2], [], ["average"], 1)
@example("i64", Kind(Spans(10, 5), 1, 0, 0), [(t, "a", 1, False) for t in (3, 11, 7, 30)], [], [], ["texts"], 2)
@example("i64", Kind(None, 5, 0, 0), [(0, "a", 1, False), (5, "a", 1, False)], [1], [], ["count"], 2)
def test_each_window_comes_once_when_the_watermark_has_passed_it_however_the_stream_is_cut(
    client: tidegate.Client,
    time: str,
    kind: Kind,
    rows: list[Any],
    cuts: list[int],
    keys: list[str],
    measures: list[str],
    channels: int,
) -> None:
    column, naive = TIMES[time], Naive(kind)
    stream = stream_of(rows)
    epochs = list(cut(stream, cuts))
    with client.create_task(kind.plan(column, keys, measures), mode="continuous", channels=channels) as task:
        answers = run(task, [changes(column, epoch) for epoch in epochs], last=True)
    total: Counter[Row] = Counter()
    watermarks = []
    for epoch in epochs:
        for row, weight in epoch:
            naive.add(row, weight)
        finest = 1_000 if "nanoseconds" in time else 1  # the watermark of a barrier is in microseconds
        watermarks.append(None if naive.watermark is None else naive.watermark // finest * finest)
    expected = kind.answers(list(naive.on_time.elements()), keys, measures)
    for number, answer in enumerate(answers):
        answered = rows_of(column, answer)
        assert {row[-1] for row in answered} <= {1}
        total.update(row[:-1] for row in answered)
        if number < len(epochs) - 1:
            ended = watermarks[number]
            assert total == Counter(row for row in expected if ended is not None and row[1] + kind.lateness <= ended)
    assert total == Counter(expected)


@settings(max_examples=tries(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=KINDS,
    rows=st.lists(INSERTED, max_size=30),
    cuts=st.lists(st.integers(0, 100), min_size=1, max_size=3),
    channels=st.sampled_from([1, 2]),
)
def test_late_rows_are_those_that_no_window_has(
    client: tidegate.Client, kind: Kind, rows: list[Any], cuts: list[int], channels: int
) -> None:
    column, naive, stream = TIMES["i64"], Naive(kind), stream_of(rows)
    with client.create_task(kind.late_rows(column).to_plan(), mode="continuous", channels=channels) as task:
        answers = run(task, [changes(column, epoch) for epoch in cut(stream, cuts)], last=True)
    for row, weight in stream:
        naive.add(row, weight)
    total: Counter[Row] = Counter()
    for *row, weight in (row for answer in answers for row in zip(*answer.to_pydict().values(), strict=True)):
        total[tuple(row)] += weight
    assert {row: weight for row, weight in total.items() if weight} == {
        row: weight for row, weight in naive.late.items() if weight
    }


@settings(max_examples=tries(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=KINDS,
    rows=st.lists(INSERTED, min_size=3, max_size=40),
    cuts=st.lists(st.integers(0, 100), min_size=2, max_size=4),
    measures=st.sampled_from([["sum", "texts"], ["sum", "least"], ["mean", "all large"]]),
    channels=st.sampled_from([1, 2]),
)
@example(Kind(Spans(60, 1), 1, 5, 0), [(t, "a", t, False) for t in range(-30, 60, 7)], [4, 9], ["mean", "count"], 2)
def test_a_restored_task_goes_on_with_its_open_windows(
    tmp_path_factory: pytest.TempPathFactory,
    kind: Kind,
    rows: list[Any],
    cuts: list[int],
    measures: list[str],
    channels: int,
) -> None:
    column, root = TIMES["i64"], tmp_path_factory.mktemp("checkpoints")
    epochs = [changes(column, epoch) for epoch in cut(stream_of(rows), cuts)]
    plan = kind.plan(column, ["k"], measures)
    with tidegate.local(checkpoint_root=str(root)) as client:
        with client.create_task(plan, mode="continuous", channels=channels) as task:
            whole = run(task, epochs, last=True)
        answers = []
        taken = None
        for number, epoch in enumerate(epochs):
            last = number == len(epochs) - 1
            with client.create_task(plan, mode="continuous", channels=channels, restore=taken) as task:
                if last:
                    answers += run(task, [epoch], last=True)
                else:
                    epoch_read = task.run_epoch({"events": epoch}, checkpoint=True)
                    answers.append(epoch_read.table())
                    taken = epoch_read.checkpoint
    assert [answer.to_pylist() for answer in answers] == [answer.to_pylist() for answer in whole]


@pytest.mark.parametrize("channels", [1, 2])
def test_many_open_groups_that_checkpoints_have_cut_are_put_together(tmp_path: Path, channels: int) -> None:
    """Each epoch has rows of all windows, in no order, and the state of each is in runs of its own."""
    random = np.random.default_rng(5)
    source = windows.watermark(
        sub.read_named_table("events", {"t": sub.i64, "k": sub.i64, "v": sub.i64}), "t", delay=1_000
    )
    measures = [sub.f.count().alias("n"), sub.f.sum(sub.col("v")).alias("s")]
    plan = windows.tumbling(source, "t", 2, keys=["k"], measures=measures, final=True).to_plan()
    expected: dict[tuple[int, int], list[int]] = {}
    answers, taken = [], None
    with tidegate.local(checkpoint_root=str(tmp_path)) as client:
        for rows in (20_000, 2_000, 200):
            times, keys, numbers = (random.integers(0, most, rows) for most in (1_000, 20, 9))
            for time, key, number in zip(times.tolist(), keys.tolist(), numbers.tolist(), strict=True):
                sums = expected.setdefault((time // 2 * 2, key), [0, 0])
                sums[0] += 1
                sums[1] += number
            epoch = pa.table({"t": times, "k": keys, "v": numbers})
            with client.create_task(plan, mode="continuous", channels=channels, restore=taken) as task:
                if rows == 200:
                    task.add_split("events", epoch)
                    task.no_more_splits()
                    answers += [ended.table() for ended in task.epochs()]
                else:
                    epoch_read = task.run_epoch({"events": epoch}, checkpoint=True)
                    answers.append(epoch_read.table())
                    taken = epoch_read.checkpoint
    given_windows = [row for answer in answers for row in answer.to_pylist()]
    answer = {(row["window_start"], row["k"]): [row["n"], row["s"]] for row in given_windows}
    assert (answer, len(given_windows)) == (expected, len(expected))


@pytest.mark.parametrize("seed", range(4))
def test_two_streams_cut_into_epochs_anyhow_give_the_windows_of_one_epoch(client: tidegate.Client, seed: int) -> None:
    random, column = Random(seed), TIMES["i64"]
    kind = Kind(Spans(17, 5) if seed % 2 else None, 4, random.randint(0, 40), 3)
    times = {"a": [random.randint(0, 100) + at for at in range(40)], "b": [2 * at for at in range(40)]}
    streams = {name: [((time, "k", time), 1) for time in of_name] for name, of_name in times.items()}
    naive = {name: Naive(kind) for name in streams}
    for name, stream in streams.items():
        for row, weight in stream:
            naive[name].add(row, weight)
    rows = list((naive["a"].on_time + naive["b"].on_time).elements())
    expected = Counter(kind.answers(rows, ["k"], ["sum", "texts"]))
    plan = kind.plan(column, ["k"], ["sum", "texts"], names=("a", "b"))
    for epochs in (1, 2, 5):
        cuts = {name: [random.randint(0, 40) for _ in range(epochs - 1)] for name in streams}
        parts = {name: list(cut(stream, cuts[name])) for name, stream in streams.items()}
        total: Counter[Row] = Counter()
        with client.create_task(plan, mode="continuous", channels=random.choice([1, 3])) as task:
            for number in range(epochs - 1):
                split = {name: changes(column, of_name[number]) for name, of_name in parts.items()}
                total.update(rows_of(column, task.run_epoch(split).table()))
            for name, of_name in parts.items():
                task.add_split(name, changes(column, of_name[-1]).data, change_column="_weight")
            task.no_more_splits()
            for epoch in task.epochs():
                total.update(rows_of(column, epoch.table()))
        assert total == Counter({(*row, 1): 1 for row in expected})
