"""The bounds of windows, which NumPy computes, or DuckDB where a bound may be too far away."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import tidegate
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.sliced_rows import SliceStarts
from tidegate.planner.changes import rowwise
from tidegate.planner.cut import fragments

from ..kernel_answers import noted_answers
from .naive import Spans
from .running import TIMES, plan

EDGES = [0, 1, -1, 59, 10**6, 2**31 - 3, 2**31 - 1, 2**62 // 10**6, 2**62 // 10**3, 2**62 - 100, 2**62, 2**63 - 70]
ABOVE = 20_000
"""More rows than small inputs have."""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether NumPy answered, each time that it was asked."""
    return noted_answers(monkeypatch)


def _outcomes(client: tidegate.Client, time: str, moments: Sequence[int]) -> list[pa.Table | str]:
    """The windows of each moment, or what is wrong with them."""
    kind = TIMES[time]
    with client.create_task(plan(kind, Spans(60, 60, 7), ["v"], ["count"]), on_error="skip_epoch") as task:
        outcomes: list[pa.Table | str] = []
        for moment in moments:
            rows = pa.table({"t": kind.array([moment]), "k": ["a"], "v": pa.array([1], pa.int64())})
            try:
                outcomes.append(task.run_epoch({"events": rows}).table())
            except tidegate.EpochError as error:
                outcomes.append(error.message)
        return outcomes


@pytest.mark.parametrize("time", TIMES)
def test_bounds_are_those_of_duckdb(
    client: tidegate.Client, time: str, answers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = TIMES[time]
    most = 2 ** ((8 if time == "i8" else kind.arrow.bit_width) - 1)
    moments = [edge for one in EDGES for edge in (one, -one - 1) if -most < edge < most - 1]
    computed = _outcomes(client, time, moments)
    assert any(answers)
    monkeypatch.setattr(fragments, "kernels", lambda *_: None)
    answers.clear()
    assert computed == _outcomes(client, time, moments)
    assert not answers


def test_bounds_of_many_windows(client: tidegate.Client, answers: list[bool]) -> None:
    kind = TIMES["microseconds"]
    rows = {"t": kind.array(range(0, 60 * ABOVE, 60)), "k": ["a"] * ABOVE, "v": pa.array([1] * ABOVE, pa.int64())}
    with client.create_task(plan(kind, Spans(60, 60), ["v"], ["count"])) as task:
        windows = task.run_epoch({"events": pa.table(rows)}).table()
    assert answers
    assert all(answers)
    assert kind.ticks(windows.column(0)) == list(range(0, 60 * ABOVE, 60))
    assert kind.ticks(windows.column(1)) == list(range(60, 60 * ABOVE + 60, 60))


@pytest.mark.parametrize("time", TIMES)
def test_bounds_of_continuous_windows_are_those_of_duckdb(
    client: tidegate.Client, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, answered = TIMES[time], []
    most = 2 ** ((8 if time == "i8" else kind.arrow.bit_width) - 1)
    farthest = 2**62 // {"s": 10**6, "ms": 10**3}.get(getattr(kind.arrow, "unit", ""), 1)
    edges = [edge for one in EDGES for edge in (one, -one - 1) if abs(edge) < min(most, farthest) - 120]
    rows = pa.table({"t": kind.array(edges), "k": ["a"] * len(edges), "v": pa.array([1] * len(edges), pa.int64())})
    in_arrays = SliceStarts.of

    def noted(self: SliceStarts, rows: Rows) -> Rows | None:
        answer = in_arrays(self, rows)
        answered.append(answer is not None)
        return answer

    def windows() -> list[object]:
        with client.create_task(plan(kind, Spans(60, 60, 7), ["v"], ["count"]), mode="continuous") as task:
            table = task.run_epoch({"events": rows}).table()
        return sorted(zip(*(kind.ticks(table.column(name)) for name in ("window_start", "window_end")), strict=True))

    monkeypatch.setattr(SliceStarts, "of", noted)
    computed = windows()
    assert answered
    assert all(answered)
    monkeypatch.setattr(rowwise, "slice_starts", lambda _: None)
    answered.clear()
    assert computed == windows()
    assert not answered
