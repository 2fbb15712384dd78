"""Sessions that come once, against sessions in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time.final_sessions import FinalSessions
from tidegate.operators.changes.event_time.waiting_rows import WaitingRows
from tidegate.operators.changes.event_time.window_closing import SessionClosing, Ticks
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.kept.state_format import save_arrangement, save_numbers
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.core.operator import UNBOUNDED
from tidegate.operators.testing import MemoryState

from ....searching import tries
from ....windows.naive import sessions

Row = tuple[Any, ...]
ROWS: Final = pa.schema([pa.field("t", pa.int64(), False), ("k", pa.string()), ("v", pa.int64())])
SESSIONS: Final = pa.schema([("first", pa.int64()), ("last", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


def naive(rows: Sequence[Row], gap: int, *, keyed: bool = True) -> list[Row]:
    """The first and the last tick, the key (or nothing) and the sum of each session."""
    answers = sessions(rows, gap, [1] if keyed else [], [lambda own: sum(row[2] for row in own)])
    return [(first, end - gap, key[0] if key else None, total) for first, end, *key, total in answers]


def batch(rows: Sequence[Row], schema: pa.Schema = ROWS) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(list(column), type_) for column, type_ in zip(columns, schema.types, strict=True)]
    return pa.record_batch(arrays, schema=schema)


class Sessions:
    """The operator, and the sessions that have come from it."""

    def __init__(self, gap: int, lateness: int = 0, *, keyed: bool = True) -> None:
        closing = SessionClosing(gap=gap, lateness=lateness, ticks=Ticks())

        def evaluate(rows: pa.RecordBatch, *_: Any) -> pa.RecordBatch:
            whole = list(zip(*rows.to_pydict().values(), strict=True))
            return batch(naive(whole, gap, keyed=keyed), SESSIONS)

        self._new = lambda: FinalSessions(ROWS, SESSIONS, closing, evaluate, keys=int(keyed), plan_path="here")
        self.operator = self._new()
        self.come: list[Row] = []

    def feed(self, rows: Sequence[Row], watermark: int | None, weights: Sequence[int] | None = None) -> list[Row]:
        """The sessions that come when these rows have, and the watermark is at this one."""
        signs = None if weights is None else np.array(weights, dtype=np.int64)
        if rows:
            assert list(self.operator.receive(0, Change.of_batch(batch(rows), signs))) == []
        answers: list[Row] = []
        for change in self.operator.advance(watermark):
            assert change.weights.tolist() == [1] * len(change)
            arrays = change.rows.to_arrays(SESSIONS.types)
            answers += zip(*(array.to_pylist() for array in arrays), strict=True)
        self.come += answers
        return answers

    def restore(self, state: HeldState | MemoryState) -> None:
        self.operator.save(state)
        self.load(state)

    def load(self, state: HeldState | MemoryState) -> None:
        self.operator = self._new()
        self.operator.load(state)


TICKS = st.integers(-40, 60) | st.sampled_from([10**6, 10**6 + 3, 10**12, -(2**63) + 1, 2**63 - 1])


@settings(max_examples=tries(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    rows=st.lists(st.tuples(TICKS, st.sampled_from([None, "a", "b"]), st.integers(-3, 3)), max_size=30),
    gap=st.integers(1, 12) | st.sampled_from([10**6, 2**62]),
    lateness=st.integers(0, 6),
    keyed=st.booleans(),
    restored=st.sampled_from([None, HeldState, MemoryState]),
)
def test_sessions_are_those_of_plain_python_however_the_stream_is_cut(
    data: st.DataObject,
    rows: list[Row],
    gap: int,
    lateness: int,
    keyed: bool,
    restored: type[HeldState | MemoryState] | None,
) -> None:
    """Each row is on time. It may be deleted as long as it is."""
    marks = sorted(data.draw(st.lists(st.integers(-50, 90) | st.sampled_from([10**6 + 50, 2 * 10**12]), max_size=6)))
    epochs: list[list[tuple[Row, int]]] = [[] for _ in range(len(marks) + 1)]
    left = []
    for row in rows:
        latest = sum(row[0] >= mark - lateness for mark in marks)
        at = data.draw(st.integers(0, latest))
        epochs[at].append((row, 1))
        gone = data.draw(st.none() | st.integers(at, latest))
        left += [row] if gone is None else []
        epochs[latest if gone is None else gone] += [] if gone is None else [(row, -1)]
    own = Sessions(gap, lateness, keyed=keyed)
    for epoch, mark in zip(epochs, [*marks, UNBOUNDED], strict=True):
        own.feed([row for row, _ in epoch], mark, [weight for _, weight in epoch])
        if restored is not None:
            own.restore(restored())
    assert Counter(own.come) == Counter(naive(left, gap, keyed=keyed))


def read_per_result(gap: int) -> float:
    """The rows and ticks read for each session. There are five at each tick, each of a key of its own."""
    own, at_once = Sessions(gap), 5
    rows = [[(tick, f"{tick} {key}", 1) for key in range(at_once)] for tick in range(4 * gap)]
    for tick in range(2 * gap):
        own.feed(rows[tick], tick)
    before, results = own.operator.touched, 0
    for tick in range(2 * gap, 4 * gap):
        results += len(own.feed(rows[tick], tick))
    assert results == at_once * 2 * gap
    return (own.operator.touched - before) / results


def test_a_session_costs_the_same_however_long_the_gap_is() -> None:
    """A row is counted when it comes in, too."""
    costs = {gap: read_per_result(gap) for gap in (60, 600)}
    assert costs[600] == pytest.approx(costs[60], rel=0.1)
    assert costs[60] <= 16


def test_a_session_that_goes_on_is_read_when_it_ends() -> None:
    """Epochs that only prolong a session look at its last tick, and not at its rows."""
    own = Sessions(10)
    costs = []
    for tick in range(1_000):
        before = own.operator.touched
        assert own.feed([(tick, "a", 1)], tick) == []
        costs.append(own.operator.touched - before)
    assert sum(costs[500:]) <= 1.1 * sum(costs[:500])
    assert own.feed([], UNBOUNDED) == [(0, 999, "a", 1_000)]


def test_a_row_within_the_lateness_bridges_two_sessions() -> None:
    own = Sessions(10, lateness=8)
    assert own.feed([(0, "a", 1), (16, "a", 1)], 16) == []
    assert own.feed([(8, "a", 1)], 16) == []
    assert own.feed([], 60) == [(0, 16, "a", 3)]


def test_a_deletion_within_the_lateness_parts_a_session() -> None:
    own = Sessions(10, lateness=8)
    assert own.feed([(0, "a", 1), (8, "a", 1), (16, "a", 1)], 16) == []
    assert own.feed([(8, "a", 1)], 60, [-1]) == [(0, 0, "a", 1), (16, 16, "a", 1)]


def test_a_watermark_that_jumps_years_looks_at_ticks_that_exist() -> None:
    own = Sessions(10)
    own.feed([(0, "a", 1), (5, None, 2)], 8)
    before = own.operator.touched
    assert len(own.feed([(10**15, "a", 3), (10**15 + 9, "a", 4)], 2 * 10**15)) == 3
    assert own.operator.touched - before < 30


def test_keys_that_have_gone_take_no_memory() -> None:
    own, sizes = Sessions(20), []
    for tick in range(3_000):
        own.feed([(tick, str(tick), 1)], tick)
        sizes.append(own.operator.nbytes)
    assert max(sizes) <= 2 * max(sizes[:600])


def test_a_checkpoint_without_last_ticks_is_taken_over() -> None:
    """Earlier versions kept the ticks of the last gap."""
    rows = [(tick, "abc"[tick % 3], tick) for tick in range(0, 90, 4)]
    own, before = Sessions(10), Sessions(10)
    last = 75 - 10
    before.feed(rows, None)
    waiting = before.operator
    came = [session for session in naive(rows, 10) if session[1] <= last]
    gone = [row for row in rows for first, last_, key, _ in came if first <= row[0] <= last_ and row[1] == key]
    waiting.receive(0, Change.of_batch(batch(gone)).negated()) if gone else None
    state = MemoryState()
    save_numbers(state, "closed", 1, {"last": last})
    for kept in WaitingRows.kept(waiting):
        save_arrangement(state, *kept[:4])
    own.load(state)
    own.feed([], 80)
    own.feed([], UNBOUNDED)
    assert Counter(own.come) == Counter(session for session in naive(rows, 10) if session[1] > last)


def test_keys_of_one_hash_are_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "hashes", lambda rows: np.zeros(len(rows), dtype=np.uint64))
    own, rows = Sessions(7), [(5 * at, str(at % 3), at) for at in range(60)]
    for low in range(0, 300, 13):
        own.feed([row for row in rows if low <= row[0] < low + 13], low + 13)
    own.feed([], UNBOUNDED)
    assert Counter(own.come) == Counter(naive(rows, 7))
