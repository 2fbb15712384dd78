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
)
def test_the_first_epoch_with_more_deletions_than_insertions_fails_whenever_rows_are_counted(
    epochs: list[list[tuple[int, int]]], saves: set[int], most: int
) -> None:
    check, total = RetractionCheck(TIMED, "edges", BY_TIME), Counter[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retraction_check, "_UNCOUNTED", most)
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
