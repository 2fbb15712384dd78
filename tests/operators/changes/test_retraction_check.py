"""Deletions of rows that are not there."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes import retraction_check
from tidegate.operators.changes.event_time.row_watermarks import EventTime
from tidegate.operators.changes.event_time.window_closing import Ticks
from tidegate.operators.changes.kept import arrangement
from tidegate.operators.changes.retraction_check import RetractionCheck
from tidegate.operators.changes.values.change import Change, ones
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import FixedColumn
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import ExecutionError

from ...searching import tries
from .timed import change, run_epoch

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def test_rows_are_passed_on_as_they_come() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    assert run_epoch(known, [(0, change(SCHEMA, [((1, "x"), 2, ())], 0))]) == [((1, "x"), 2, ())]


def test_a_total_may_be_below_zero_inside_an_epoch() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    received = [(0, change(SCHEMA, [((1, None), weight, ())], 0)) for weight in (-1, 1)]
    assert run_epoch(known, received) == [((1, None), -1, ()), ((1, None), 1, ())]


def test_deleting_a_row_that_is_not_there_is_an_error_that_names_it() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    run_epoch(known, [(0, change(SCHEMA, [((1, "x"), 1, ())], 0))])
    with pytest.raises(ExecutionError, match=r"source 'edges': the row \{'k': 1, 'v': 'x'\} .* it has -1 copies"):
        run_epoch(known, [(0, change(SCHEMA, [((1, "x"), -2, ())], 0))])


TIMED = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("watermark", pa.int64())])
BY_TIME = EventTime(column="t", delay=0, ahead=None, idle=None, parts=1, ticks=Ticks(), horizon=10)


@settings(max_examples=tries(60), deadline=None)
@given(
    epochs=st.lists(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1, 1, 1, 2])), max_size=6), max_size=8),
    saves=st.sets(st.integers(0, 7)),
    most=st.sampled_from([0, 3, 1 << 18]),
    long=st.sampled_from([1, 4_096]),
)
def test_the_first_epoch_with_more_deletions_than_insertions_fails_whenever_rows_are_counted(
    epochs: list[list[tuple[int, int]]], saves: set[int], most: int, long: int
) -> None:
    check, total = RetractionCheck(TIMED, "edges", BY_TIME), Counter[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retraction_check, "_UNCOUNTED", most)
        patched.setattr(arrangement, "_LONG", long)
        patched.setattr(arrangement, "_FEW", 0 if long == 1 else 256)
        for number, epoch in enumerate(epochs):
            for k, weight in epoch:
                total[k] += weight
            received = [(0, change(TIMED, [((k, 50, 40), weight, ())], 0)) for k, weight in epoch]
            if min(total.values(), default=0) < 0:
                with pytest.raises(ExecutionError, match="deleted more often than inserted"):
                    run_epoch(check, received)
                return
            run_epoch(check, received)
            if number in saves:
                state = MemoryState()
                check.save(state)
                check = RetractionCheck(TIMED, "edges", BY_TIME)
                check.load(state)


def test_rows_that_no_reader_needs_are_forgotten_before_they_are_counted() -> None:
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    sizes = []
    for start in range(0, 1_000, 20):
        run_epoch(check, [(0, change(TIMED, [((at, start + at, start), 1, ()) for at in range(20)], 0))])
        check.advance(start + 20)
        sizes.append(check.nbytes)
    assert len(set(sizes[5:])) == 1
    with pytest.raises(ExecutionError, match="deleted more often than inserted"):
        run_epoch(check, [(0, change(TIMED, [((19, 999, 1_000), -2, ())], 0))])


def test_narrow_rows_are_hashed_when_a_deletion_asks_for_them_and_are_those_that_were_fed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[int] = []
    hashes = retraction_check._hashes
    monkeypatch.setattr(retraction_check, "_hashes", lambda rows: hashed.append(len(rows)) or hashes(rows))
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    fed = [np.array(values) for values in ([1, 2, 3], [50, 51, 52], [40, 40, 40])]
    list(check.receive(0, Change(Rows([FixedColumn(values) for values in fed], 3), ones(3))))
    check.settle()
    assert hashed == []
    for values in fed:
        values[:] = 0  # whoever fed the rows uses the memory again
    run_epoch(check, [(0, change(TIMED, [((2, 51, 40), -1, ())], 0))])
    assert sorted(hashed) == [1, 3]
    with pytest.raises(ExecutionError, match="deleted more often than inserted"):
        run_epoch(check, [(0, change(TIMED, [((2, 51, 40), -1, ())], 0))])


def test_wide_rows_wait_as_their_hashes() -> None:
    wide = pa.schema([("k", pa.string()), ("t", pa.int64()), ("watermark", pa.int64())])
    check = RetractionCheck(wide, "edges", BY_TIME)
    run_epoch(check, [(0, change(wide, [(("x" * 10_000, 50, 40), 1, ())] * 5, 0))])
    assert check.nbytes == 5 * 24


def test_waiting_rows_take_no_more_memory_than_as_many_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 100)
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    for start in range(0, 1_000, 10):
        run_epoch(check, [(0, change(TIMED, [((start + at, 50, 40), 1, ()) for at in range(10)], 0))])
        assert check._uncounted.nbytes <= 100 * 24


def test_no_epoch_counts_many_more_rows_than_come_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 20_000)
    moved: list[int] = []
    hashes, merged = retraction_check._hashes, arrangement.merged
    monkeypatch.setattr(retraction_check, "_hashes", lambda rows: moved.append(len(rows)) or hashes(rows))
    monkeypatch.setattr(
        arrangement, "merged", lambda runs, *others: moved.append(sum(map(len, runs))) or merged(runs, *others)
    )
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    most = 0
    for start in range(0, 200_000, 2_000):
        moved.clear()
        list(check.receive(0, inserted(range(start, start + 2_000), tick=start)))
        check.settle()
        most = max(most, sum(moved))
    assert 0 < most <= 4 * 4_096
    assert_deleted_once(check, 3, tick=0)


def test_equal_rows_of_many_epochs_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 0)
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    for _ in range(50):
        list(check.receive(0, inserted(range(5_000), tick=50)))
        check.settle()
    assert check._counts.rows <= 2 * 5_000


def test_rows_far_ahead_of_all_others_are_kept_in_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 0)
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    for start in range(0, 2_000, 20):
        list(check.receive(0, inserted(range(4_200), tick=start)))
        list(check.receive(0, inserted(range(start, start + 1), tick=10**9)))
        check.settle()
        check.advance(start)
    assert len(check._counts._runs) < 20
    assert_deleted_once(check, 40, tick=10**9)


def test_a_feeder_may_use_its_memory_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = np.full(100, 50)
    times = FixedColumn(np.frombuffer(pa.py_buffer(ticks), np.int64))
    fed = Change(Rows([FixedColumn(np.arange(100)), times, FixedColumn(np.full(100, 40))], 100), ones(100))
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    list(check.receive(0, fed))
    check.settle()
    ticks[:] = 1
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 0)
    list(check.receive(0, inserted(range(100, 101), tick=50)))
    check.settle()
    check.advance(20)
    assert check._counts.rows == 101


def test_counted_rows_are_forgotten_with_their_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraction_check, "_UNCOUNTED", 0)
    check = RetractionCheck(TIMED, "edges", BY_TIME)
    rows = []
    for start in range(0, 1_000, 5):
        list(check.receive(0, inserted(range(1_000), tick=start)))
        check.settle()
        check.advance(start)
        rows.append(check._counts.rows)
    assert max(rows[20:]) <= 3_000 + 2 * 4_096  # those of the horizon, and of a run that is not forgotten yet
    assert_deleted_once(check, 3, tick=995)


def inserted(keys: range, tick: int) -> Change:
    columns = [FixedColumn(np.array(keys)), *(FixedColumn(np.full(len(keys), number)) for number in (tick, tick - 10))]
    return Change(Rows(columns, len(keys)), ones(len(keys)))


def assert_deleted_once(check: RetractionCheck, key: int, tick: int = 50) -> None:
    run_epoch(check, [(0, change(TIMED, [((key, tick, tick - 10), -1, ())], 0))])
    with pytest.raises(ExecutionError, match="deleted more often than inserted"):
        run_epoch(check, [(0, change(TIMED, [((key, tick, tick - 10), -1, ())], 0))])
