"""The watermark at each row of a source, against plain Python."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time.row_watermarks import EventTime, RowWatermarks
from tidegate.operators.changes.event_time.timed_rows import numbers_of
from tidegate.operators.changes.event_time.window_closing import IDLE, NEVER, Ticks
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.values.change import Change
from tidegate.operators.core.operator import UNBOUNDED

from ....searching import tries

SCHEMA: Final = pa.schema([("t", pa.int64()), pa.field("mark", pa.int64(), nullable=False)])


def operator(delay: int = 0, ahead: int | None = None, idle: int | None = None, *, fed: bool = True) -> RowWatermarks:
    event_time = EventTime(column="t", delay=delay, ahead=ahead, idle=idle, parts=1, ticks=Ticks())
    return RowWatermarks(SCHEMA, event_time, fed=fed)


def marks(source: RowWatermarks, *times: int | None) -> list[int]:
    batch = pa.record_batch([pa.array(times, pa.int64())], names=["t"])
    (marked,) = source.receive(0, Change.of_batch(batch))
    return [int(mark) for mark in numbers_of(marked.rows, 1)]


def naive(times: list[int | None], delay: int, ahead: int | None) -> list[int]:
    """The marks of insertions. With `ahead`, the first time counts only once another one is not far below it."""
    greatest: int | None = None
    first: int | None = None
    answers = []
    for time in times:
        if time is not None:
            if ahead is None:
                greatest = time if greatest is None else max(greatest, time)
            elif greatest is not None:
                greatest = max(greatest, min(time, greatest + ahead))
            elif first is None or time < first - ahead:
                first = time
            else:
                greatest = min(max(first, time), first + ahead)
        answers.append(NEVER if greatest is None else greatest - delay)
    return answers


@settings(max_examples=tries(80), deadline=None)
@given(
    batches=st.lists(st.lists(st.one_of(st.none(), st.integers(-50, 50), st.just(10**15)), max_size=6), max_size=5),
    delay=st.integers(0, 9),
    ahead=st.one_of(st.none(), st.integers(1, 20)),
    restored=st.integers(0, 5),
)
def test_the_mark_is_the_greatest_time_so_far_less_the_delay(
    batches: list[list[int | None]], delay: int, ahead: int | None, restored: int
) -> None:
    source = operator(delay, ahead)
    answers: list[int] = []
    for number, batch in enumerate(batches):
        if number == restored:
            state = HeldState()
            source.save(state)
            source = operator(delay, ahead)
            source.load(state)
        answers += marks(source, *batch)
    assert answers == naive([time for batch in batches for time in batch], delay, ahead)


def test_a_first_row_far_ahead_moves_nothing() -> None:
    source = operator(ahead=20)
    assert marks(source, 10**15) == [NEVER]
    assert source.watermark(None) is None
    assert marks(source, 5, 7, 10**15, 8) == [NEVER, 7, 27, 27]
    assert source.ahead == 2


def test_the_word_of_the_feeder_counts_from_the_next_epoch_on() -> None:
    source = operator(delay=5)
    assert marks(source, 3, 20) == [-2, 15]
    assert source.watermark(17) == 17
    assert marks(source, 4, 30) == [17, 25]
    assert source.watermark(None) == 25


def test_a_source_is_idle_after_epochs_without_rows() -> None:
    source = operator(idle=2)
    marks(source, 3)
    assert [source.watermark(None) for _ in range(3)] == [3, 3, IDLE]
    marks(source, 4)
    assert source.watermark(None) == 4
    assert source.watermark(UNBOUNDED) == UNBOUNDED


@pytest.mark.parametrize(("ticks", "tick", "watermark"), [(Ticks(1_000), 7, 7_000), (Ticks(1, 1_000), 1_999, 1)])
def test_watermarks_are_whole_microseconds(ticks: Ticks, tick: int, watermark: int) -> None:
    assert ticks.watermark(tick) == watermark
    assert ticks.at(watermark) <= tick


def test_the_watermark_of_far_times_is_within_64_bits() -> None:
    day = Ticks(86_400_000_000)
    assert day.watermark(2**31) < IDLE
    assert day.watermark(-(2**31)) == NEVER
    assert marks(operator(delay=100), -(2**63) + 50, np.iinfo(np.int64).max) == [NEVER, NEVER]
