"""Rows that are late for windows that come once, against each row alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time.on_time import OnTime
from tidegate.operators.changes.event_time.window_closing import (
    MOST,
    NEVER,
    RowClosing,
    SessionClosing,
    Ticks,
    WindowClosing,
)

from ....searching import tries
from ..timed import change, run_epoch

MARKED = pa.schema([("slice", pa.int64()), ("v", pa.int64()), ("watermark", pa.int64())])
WINDOWS = WindowClosing(size=10, slide=10, offset=3, length=1, step=1, lateness=2, ticks=Ticks())
OVERLAPPING = WindowClosing(size=20, slide=10, offset=0, length=2, step=1, lateness=0, ticks=Ticks())
SESSIONS = SessionClosing(gap=7, lateness=2, ticks=Ticks())


def is_late(closing: RowClosing, number: int, tick: int) -> bool:
    """Whether a window, or the session, of the slice or tick `number` is final at a watermark."""
    if isinstance(closing, WindowClosing):
        windows = range(number - closing.length + 1, number + 1)
        ends = (closing.offset + window * closing.slide + closing.size + closing.lateness for window in windows)
        return any(end <= tick for end in ends)
    return number < tick - closing.lag


@pytest.mark.parametrize("closing", [WINDOWS, OVERLAPPING, SESSIONS], ids=["tumbling", "overlapping", "sessions"])
@settings(max_examples=tries(60), deadline=None)
@given(
    epochs=st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(-6, 12), st.just(NEVER) | st.integers(-60, 120)), max_size=6),
            st.none() | st.integers(-60, 120),
        ),
        max_size=4,
    ),
    late=st.booleans(),
    marked=st.booleans(),
)
def test_a_row_is_late_if_a_window_of_it_was_final_at_its_watermark(
    closing: RowClosing, epochs: list[tuple[list[tuple[int, int]], int | None]], late: bool, marked: bool
) -> None:
    schema = MARKED if marked else pa.schema(list(MARKED)[:2])
    operator = OnTime(pa.schema([MARKED.field(1)]), closing, range(1, 2), marked=marked, late=late)
    tick = NEVER
    for rows, watermark in epochs:
        entries = [((number, at, mark)[: len(schema)], 1, ()) for at, (number, mark) in enumerate(rows)]
        expected = [
            ((at,), 1, ())
            for at, (number, mark) in enumerate(rows)
            if is_late(closing, number, max(mark, tick) if marked else tick) is late
        ]
        assert run_epoch(operator, [(0, change(schema, entries, 0))]) == expected
        list(operator.advance(watermark))
        tick = tick if watermark is None else max(tick, watermark)


@pytest.mark.parametrize("closing", [WINDOWS, OVERLAPPING], ids=["tumbling", "overlapping"])
@pytest.mark.parametrize("tick", [NEVER, NEVER + 5, NEVER + 12, NEVER + 40])
def test_the_first_ticks_of_64_bits_are_late_only_if_their_windows_are_final(closing: WindowClosing, tick: int) -> None:
    operator = OnTime(pa.schema([MARKED.field(1)]), closing, range(1, 2), marked=True, late=True)
    first = (NEVER - closing.offset) // closing.slide + closing.length
    entries = [((number, at, tick), 1, ()) for at, number in enumerate(range(first, first + 7))]
    late = [((at,), 1, ()) for (number, at, _), *_ in entries if is_late(closing, number, tick)]
    assert run_epoch(operator, [(0, change(MARKED, entries, 0))]) == late


@pytest.mark.parametrize("offset", [-30, 0, 3, 30])
@pytest.mark.parametrize("slide", [1, 7, 10])
def test_rows_of_windows_that_begin_before_the_first_tick_are_late(offset: int, slide: int) -> None:
    closing = WindowClosing(size=slide, slide=slide, offset=offset, length=1, step=1, lateness=0, ticks=Ticks())
    (first,) = closing.first_open(np.array([NEVER])).tolist()
    assert offset + first * slide >= NEVER
    assert first == NEVER or offset + (first - 1) * slide < NEVER


@pytest.mark.parametrize("offset", [-1_000, 0, 1_000])
def test_the_last_ticks_of_64_bits_make_all_earlier_rows_late(offset: int) -> None:
    closing = WindowClosing(size=10, slide=10, offset=offset, length=1, step=1, lateness=0, ticks=Ticks())
    first, last = closing.first_open(np.array([MOST - 3, MOST])).tolist()
    assert (MOST - offset) // 10 - 200 < first <= last
