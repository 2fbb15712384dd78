"""Overlapping windows that come once, against windows in plain Python, and against those of one epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from operator import add
from statistics import median
from typing import Any, Final
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time import running_states
from tidegate.operators.changes.event_time.final_sliding_windows import FinalSlidingWindows, SliceStates
from tidegate.operators.changes.event_time.final_windows import FinalWindows
from tidegate.operators.changes.event_time.window_closing import Ticks, WindowClosing
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.core.operator import UNBOUNDED
from tidegate.operators.slices.state_joins import StateFunction
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import ExecutionError

from ....searching import tries
from ...test_sliding_windows import KEYS, STATES, counted, listed, naive, table

Row = tuple[Any, ...]
LENGTH: Final = 60
OF_ANY_TYPE: Final = {
    "least text": ("min", pa.string(), st.sampled_from(["", "a", "b", "bb", "ä"])),
    "greatest decimal": ("max", pa.decimal128(38, 0), st.integers(-9, 9).map(lambda digit: Decimal(digit * 10**30))),
    "greatest list": ("max", pa.list_(pa.int64()), st.lists(st.integers(0, 2), max_size=2)),
    "sums": ("sum", pa.int64(), st.integers(-9, 9)),
}
ALL: Final[Mapping[str, tuple[StateFunction, pa.DataType, Any]]] = {**STATES, **OF_ANY_TYPE}
SUMS: Final = pa.schema([pa.field("n", pa.int64(), False), ("k", pa.int64()), ("s", pa.int64()), ("m", pa.int64())])


VALUES: Final = pa.schema([pa.field("n", pa.int64(), False), ("k", pa.int64()), ("s", pa.float64())])


def sums_of_slices(rows: pa.RecordBatch) -> pa.RecordBatch:
    return table(summed(list(zip(*rows.to_pydict().values(), strict=True))), VALUES).to_batches()[0]


def summed(rows: Sequence[Row]) -> list[Row]:
    sums: dict[Row, float] = {}
    for slice_, key, value in rows:
        sums[slice_, key] = sums.get((slice_, key), 0.0) + value
    return [(*group, total) for group, total in sums.items()]


class Windows:
    """The operator over slices that are a tick long, and the windows that have come from it."""

    def __init__(
        self,
        schema: pa.Schema = SUMS,
        functions: Sequence[StateFunction] = ("sum", "max"),
        length: int = LENGTH,
        step: int = 1,
        *,
        rows: bool = False,
    ) -> None:
        closing = WindowClosing(size=length, slide=step, offset=0, length=length, step=step, lateness=0, ticks=Ticks())
        keys = len(schema) - 1 - len(functions)
        states = SliceStates(functions=tuple(functions), schema=schema, sql=None)
        make: Any = sums_of_slices if rows else None
        self._new = lambda: FinalSlidingWindows(
            schema, schema, closing, states, None, keys=keys, plan_path="here", make_states=make
        )
        self.schema, self.closing, self.operator = schema, closing, self._new()
        self.come: list[Row] = []

    def feed(self, rows: Sequence[Row], watermark: int) -> list[Row]:
        """The windows that come when these slices have, and the watermark is at this one."""
        for batch in table(rows, self.schema).to_batches():
            assert list(self.operator.receive(0, Change.of_batch(batch))) == []
        answers = []
        for change in self.operator.advance(watermark):
            assert change.weights.tolist() == [1] * len(change)
            answers += listed(pa.table(change.rows.to_arrays(self.schema.types), schema=self.schema))
        self.come += answers
        return answers

    def restore(self, state: HeldState | MemoryState) -> None:
        self.operator.save(state)
        self.operator = self._new()
        self.operator.load(state)

    def closed(self, watermark: int) -> int:
        """The slice behind the last window that has come at this watermark."""
        return self.closing.last_closed(watermark) * self.closing.step + self.closing.length


@settings(max_examples=tries(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.data(),
    of_keys=st.sampled_from([[], ["texts"], ["numbers", "floats"], ["decimals"], ["truth"]]),
    of_states=st.lists(st.sampled_from(sorted(set(ALL) - {"floats"})), max_size=3, unique=True),
    length=st.sampled_from([60, 61, 97, 7, 2]),
    step=st.sampled_from([1, 7, 59]),
    restored=st.sampled_from([None, HeldState, MemoryState]),
)
def test_windows_are_those_of_plain_python_however_the_stream_is_cut(
    data: st.DataObject,
    of_keys: list[str],
    of_states: list[str],
    length: int,
    step: int,
    restored: type[HeldState | MemoryState] | None,
) -> None:
    step, functions = min(step, length - 1), [ALL[name][0] for name in of_states]
    fields = [pa.field("n", pa.int64(), False), *((f"k{key}", KEYS[key][0]) for key in of_keys)]
    schema = pa.schema([*fields, *((name, ALL[name][1]) for name in of_states)])
    slices = st.integers(-70, 200) | st.sampled_from([10**6, 10**6 + 30, 10**12])
    keys = st.tuples(*(st.none() | KEYS[key][1] for key in of_keys))
    states = st.tuples(*(ALL[name][2] if name == "count" else st.none() | ALL[name][2] for name in of_states))
    groups = data.draw(st.dictionaries(st.tuples(slices, keys), states, max_size=40))
    marks = sorted(data.draw(st.lists(st.integers(-100, 330) | st.sampled_from([10**6 + 50, 2 * 10**12]), max_size=6)))
    windows, epochs = Windows(schema, functions, length, step), [[] for _ in range(len(marks) + 1)]
    rows = [(slice_, *key, *own) for (slice_, key), own in groups.items()]
    for row in rows:
        at = data.draw(st.integers(0, len(marks)))
        late = at > 0 and row[0] < windows.closed(marks[at - 1])
        epochs[0 if late else at].append(row)
    for epoch, mark in zip(epochs, [*marks, UNBOUNDED], strict=True):
        windows.feed(epoch, mark)
        if restored is not None:
            windows.restore(restored())
    assert hashable(windows.come) == hashable(naive(rows, functions, length, step, len(of_keys)))


def hashable(rows: Sequence[Row]) -> Counter[Row]:
    return counted([tuple(str(value) if isinstance(value, list) else value for value in row) for row in rows])


def bits_of_sums(rows: Sequence[Row], length: int, step: int) -> list[tuple[int, int, str]]:
    """The sums of windows: of the slices of the block in which the window begins, from the last one back, and of the
    later ones, from the first one on. A block is half a window long.
    """
    values = {row[:2]: row[2] for row in rows}
    answers = []
    for number, key in {
        (number, key) for at, key in values for number in range((at - length) // step + 1, at // step + 1)
    }:
        end = (number * step // (length // 2) + 1) * (length // 2)
        front = [values[at, key] for at in range(number * step, end) if (at, key) in values]
        back = [values[at, key] for at in range(end, number * step + length) if (at, key) in values]
        total = reduce(add, front[::-1], -0.0) + reduce(add, back, -0.0)
        answers.append((number, key, total.hex()))
    return sorted(answers)


@pytest.mark.parametrize("length", [LENGTH, 61, 5])
@pytest.mark.parametrize("step", [1, 4, 29, 40])
@pytest.mark.parametrize("watermarks", [range(0, 500, 3), range(500), range(0, 500, 61), [500]])
def test_sums_of_floats_have_the_same_bits_however_the_stream_is_cut(
    length: int, step: int, watermarks: Sequence[int]
) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), False), ("k", pa.int64()), ("s", pa.float64())])
    rows = [(at // 2, at % 2, 0.1 * at**3) for at in range(800) if at % 5]
    step = min(step, length - 1)
    windows = Windows(schema, ["sum"], length, step)
    for low, high in pairwise([-1, *watermarks]):
        windows.feed([row for row in rows if low < row[0] <= high], high)
        windows.restore(HeldState()) if high % 50 == 2 else None
    windows.feed([], UNBOUNDED)
    assert sorted((number, key, value.hex()) for number, key, value in windows.come) == bits_of_sums(rows, length, step)


def most_read_in_an_epoch(length: int) -> float:
    """The most rows and states that an epoch reads, beside the median, where each ends a window."""
    windows, read = Windows(length=length), []
    for at in range(3 * length):
        before = windows.operator.touched
        windows.feed([(at, key, 1, at) for key in range(5)], at)
        read.append(windows.operator.touched - before)
    return max(read[length:]) / median(read[length:])


def test_no_epoch_reads_much_more_than_the_others() -> None:
    """Nothing has to be done at once for all slices of a window."""
    assert most_read_in_an_epoch(60) <= 6
    assert most_read_in_an_epoch(600) <= 6


def test_the_more_keys_the_fewer_slices_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with_few = most_read_in_an_epoch(60)
    monkeypatch.setattr(running_states, "_ROWS", 10)
    assert most_read_in_an_epoch(60) < 0.9 * with_few


def read_per_result(length: int) -> float:
    """The rows and states read for each result of windows that are full of slices."""
    windows, keys, turns = Windows(length=length), 5, 2 * length
    for at in range(length):
        windows.feed([(at, key, 1, at) for key in range(keys)], at)
    before, results = windows.operator.touched, 0
    for at in range(length, length + turns):
        results += len(windows.feed([(at, key, 1, at) for key in range(keys)], at))
    assert results == keys * turns
    return (windows.operator.touched - before) / results


def test_a_result_costs_the_same_however_many_slices_its_window_has() -> None:
    """Over two turns of the window. A row is touched when it comes in, too."""
    assert read_per_result(60) == pytest.approx(read_per_result(600), rel=0.05)
    assert read_per_result(60) <= 8


def test_windows_that_end_at_once_are_computed_from_rows_that_are_read_twice_at_most() -> None:
    windows = Windows()
    windows.feed([(at, 1, 1, 1) for at in range(3_000)], -1)
    before = windows.operator.touched
    assert len(windows.feed([], 3_000)) == 3_000
    assert windows.operator.touched - before <= 2 * 3_000


def test_a_key_that_is_gone_for_longer_than_a_window_comes_again() -> None:
    windows, rows = Windows(), [(5, 1, 3, 9), (40, 1, 4, 1), (200, 1, 5, 2), (130, 2, 1, 1)]
    for at in range(0, 400, 9):
        windows.feed([row for row in rows if at <= row[0] < at + 9], at + 9)
    assert counted(windows.come) == counted(naive(rows, ["sum", "max"], LENGTH, 1, 1))
    assert max(row[2] for row in windows.come) == 7


def test_a_checkpoint_of_the_operator_without_running_results_is_taken_over() -> None:
    """Earlier versions gave these windows with the other operator."""
    windows, rows = Windows(), [(at, at % 3, at, -at) for at in range(0, 90, 2)]
    windows.operator.load(saved_without_running_results(windows.closing, SUMS, rows, 75))
    windows.feed([], UNBOUNDED)
    wanted = [row for row in naive(rows, ["sum", "max"], LENGTH, 1, 1) if row[0] > 75 - LENGTH]
    assert counted(windows.come) == counted(wanted)
    assert FinalSlidingWindows.state_name() == FinalWindows.state_name()


@pytest.mark.parametrize("watermarks", [range(0, 300, 7), range(0, 300, 97), [300]])
def test_states_are_made_of_rows_of_slices_that_have_ended(watermarks: Sequence[int]) -> None:
    windows, rows = Windows(VALUES, ["sum"], rows=True), [(at // 3, at % 2, 0.1 * at**2) for at in range(900)]
    for low, high in pairwise([-1, *watermarks]):
        windows.feed([row for row in rows if low < row[0] <= high][::-1], high)
        windows.restore(MemoryState())
    windows.feed([row for row in rows if row[0] > max(watermarks)], UNBOUNDED)
    of_slices = Windows(VALUES, ["sum"])
    of_slices.feed(summed(rows), UNBOUNDED)
    assert sorted(windows.come) == sorted(of_slices.come)


def test_a_checkpoint_of_rows_alone_is_taken_over() -> None:
    """Earlier versions kept rows until their last window had come."""
    windows, rows = Windows(VALUES, ["sum"], rows=True), [(at // 2, at % 3, float(at)) for at in range(180)]
    windows.operator.load(saved_without_running_results(windows.closing, VALUES, rows, 75))
    windows.feed([], UNBOUNDED)
    wanted = [row for row in naive(rows, ["sum"], LENGTH, 1, 1) if row[0] > 75 - LENGTH]
    assert counted(windows.come) == counted(wanted)


def test_a_row_is_deleted_before_its_slice_has_ended() -> None:
    windows = Windows(VALUES, ["sum"], rows=True)
    rows = table([(3, 1, 0.5), (3, 1, 0.25), (70, 1, 1.0)], VALUES).to_batches()[0]
    list(windows.operator.receive(0, Change.of_batch(rows)))
    list(windows.operator.receive(0, Change.of_batch(rows.slice(1, 1), np.array([-1]))))
    assert {row[2] for row in windows.feed([], 65)} == {0.5}
    list(windows.operator.receive(0, Change.of_batch(rows.slice(2, 1), np.array([-2]))))
    with pytest.raises(ExecutionError, match="deleted on time, but its insertion came later"):
        windows.feed([], UNBOUNDED)


def saved_without_running_results(
    closing: WindowClosing, schema: pa.Schema, rows: Sequence[Row], watermark: int
) -> MemoryState:
    """The state of the operator that reads all rows of windows, behind those that come at this watermark."""
    nothing = Mock(return_value=pa.RecordBatch.from_pylist([], schema))
    before, state = FinalWindows(schema, schema, closing, nothing, in_order=False, plan_path=""), MemoryState()
    for batch in table(rows, schema).to_batches():
        list(before.receive(0, Change.of_batch(batch)))
    list(before.advance(watermark))
    before.save(state)
    return state


def test_keys_that_have_gone_take_no_memory() -> None:
    windows, sizes = Windows(), []
    for at in range(1_500):
        windows.feed([(at, at, 1, 1)], at)
        sizes.append(windows.operator.nbytes)
    assert max(sizes) <= 3 * max(sizes[:150])


def test_only_nulls_have_no_sum_and_no_greatest_value() -> None:
    windows = Windows()
    windows.feed([(0, None, None, None), (3, None, None, None), (61, None, 2, 3)], 100)
    by_window = {number: (total, greatest) for number, _, total, greatest in windows.come}
    assert by_window[0] == by_window[1] == (None, None)
    assert by_window[2] == by_window[40] == (2, 3)


def test_a_watermark_that_jumps_years_looks_at_slices_that_exist() -> None:
    windows = Windows()
    windows.feed([(0, 1, 1, 1)], 10)
    before = windows.operator.touched
    come = windows.feed([(10**13, 1, 2, 2), (3 * 10**13, 1, 3, 3)], 4 * 10**13)
    assert len(come) == 3 * LENGTH - len(range(-59, 11 - LENGTH))
    assert windows.operator.touched - before < 20


def test_a_sum_may_pass_the_bounds_of_its_type_on_the_way() -> None:
    """The two slices in the middle are the first ones of a block, and their sum is no sum of a window."""
    windows, large = Windows(length=3), 2**63 - 1
    come = windows.feed([(-1, 1, -large, 0), (0, 1, large, 0), (1, 1, 5, 0), (2, 1, -large, 0)], UNBOUNDED)
    assert [row[2] for row in sorted(come)] == [-large, 0, 5, 5, 5 - large, -large]


def test_a_window_whose_sum_is_beyond_its_type_is_an_error_that_names_the_key() -> None:
    windows = Windows()
    with pytest.raises(ExecutionError, match=r"here: a sum is 9223372036854775808, .* in the rows of the key .*7"):
        windows.feed([(0, 7, 2**63 - 1, 0), (1, 7, 1, 0)], 100)


@pytest.mark.parametrize("slice_", [-(2**63) + 5, 2**63 - 5])
def test_slices_at_the_end_of_64_bits_are_an_error(slice_: int) -> None:
    with pytest.raises(ExecutionError, match=r"windows of 60 slices with it begin or end beyond 64 bits"):
        Windows().feed([(slice_, 1, 1, 1)], UNBOUNDED)


def test_keys_of_one_hash_are_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rows, "hashes", lambda rows: np.zeros(len(rows), dtype=np.uint64))
    windows, rows = Windows(), [(at % 70, at % 3, at, at) for at in range(200)]
    rows = list({row[:2]: row for row in rows}.values())
    for at in range(0, 150, 13):
        windows.feed([row for row in rows if at <= row[0] < at + 13], at + 13)
    assert counted(windows.come) == counted(naive(rows, ["sum", "max"], LENGTH, 1, 1))
