"""Sessions, per epoch and as changes, against sessions in plain Python."""

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
from tidegate.relations import WindowAggregate

from ..searching import tries
from .naive import MEASURES, WHOLE, Row, sessions
from .running import TIMES, Time, events, rows_of, run

FUNCTIONS = {**MEASURES, **WHOLE}
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-30, 30)), st.sampled_from([None, "a", "b"]), st.integers(-3, 3)),
    max_size=30,
)


def _plan(time: Time, gap: int, keys: list[str], measures: list[str]) -> Any:
    source = sub.read_named_table("events", {"t": time.plan, "k": sub.string, "v": sub.i64})
    functions = [FUNCTIONS[name][0].alias(name) for name in measures]
    return windows.session(source, "t", time.span(gap), keys=keys, measures=functions).to_plan()


def _expected(rows: list[Row], gap: int, keys: list[str], measures: list[str]) -> Counter[Row]:
    positions = [("t", "k", "v").index(key) for key in keys]
    return Counter(sessions(rows, gap, positions, [FUNCTIONS[name][1] for name in measures]))


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    time=st.sampled_from(sorted(TIMES)),
    rows=ROWS,
    gap=st.integers(1, 9),
    keys=st.sampled_from([[], ["k"]]),
    measures=st.lists(st.sampled_from(sorted(FUNCTIONS)), unique=True, max_size=3),
    channels=st.sampled_from([1, 2]),
)
@example("i64", [(0, "a", 1), (5, "a", 2), (0, "a", 3)], 5, ["k"], ["sum"], 1)
def test_a_session_ends_where_no_row_comes_for_the_gap(
    client: tidegate.Client,
    time: str,
    rows: list[Row],
    gap: int,
    keys: list[str],
    measures: list[str],
    channels: int,
) -> None:
    kind = TIMES[time]
    answer = run(client, _plan(kind, gap, keys, measures), [events(kind, rows[:7]), events(kind, rows[7:])], channels)
    assert Counter(rows_of(kind, answer)) == _expected(rows, gap, keys, measures)


@settings(max_examples=tries(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 5)), min_size=1, max_size=3),
    gap=st.integers(1, 9),
    channels=st.sampled_from([1, 2]),
)
@example([([(0, "a", 1), (12, "a", 1)], 0), ([(6, "a", 1)], 0), ([], 3)], 7, 2)
def test_a_late_row_joins_two_sessions_and_its_deletion_parts_them(
    client: tidegate.Client, epochs: list[tuple[list[Row], int]], gap: int, channels: int
) -> None:
    kind = TIMES["i64"]
    present: list[Row] = []
    total: Counter[Row] = Counter()
    with client.create_task(_plan(kind, gap, ["k"], ["sum"]), mode="continuous", channels=channels) as task:
        for rows, deleted in epochs:
            gone, present = present[:deleted], present[deleted:] + rows
            weights = pa.array([1] * len(rows) + [-1] * len(gone), pa.int64())
            changes = events(kind, [*rows, *gone]).append_column("_weight", weights)
            answer = task.run_epoch({"events": tidegate.Changes(changes)}).table()
            for *row, weight in rows_of(kind, answer):
                total[tuple(row)] += weight
            assert +total == _expected(present, gap, ["k"], ["sum"])


@pytest.mark.parametrize("field", ["size", "slide", "offset"])
def test_sessions_with_another_length_of_time_are_refused(client: tidegate.Client, field: str) -> None:
    built = _plan(TIMES["i64"], 5, [], ["count"])
    detail = built.relations[-1].root.input.extension_single.detail
    message = WindowAggregate()
    detail.Unpack(message)
    getattr(message, field).units = 1
    detail.Pack(message)
    (problem,) = client.validate(built)
    assert (problem.reason, problem.place.rpartition(".")[2]) == ("WRONG_SPAN", field)
