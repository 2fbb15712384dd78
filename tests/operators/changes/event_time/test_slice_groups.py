"""Groups of slices come once, when their slice is closed, with the numbers that plain Python gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.event_time.window_closing import IDLE, Ticks, WindowClosing
from tidegate.operators.changes.group import Count, Extreme, Group, GroupSlices, Sum
from tidegate.operators.changes.kept.held_state import HeldState
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.core.operator import UNBOUNDED
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import CheckpointError, ExecutionError

from ....searching import tries

Row = tuple[Any, ...]
FIELDS: Final = [("slice", pa.int64()), ("key", pa.int64()), ("value", pa.int64())]
NUMBERS: Final = pa.schema(FIELDS)
TEXTS: Final = pa.schema([FIELDS[0], ("key", pa.string()), FIELDS[2]])
MEASURES: Final = (Count(), Count(2), Sum(2), Extreme(2, greatest=True))
GIVEN: Final = [("rows", pa.int64()), ("values", pa.int64()), ("sum", pa.int64()), ("greatest", pa.int64())]
ENTRIES: Final = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from([None, 0, 1, 2, 1 << 40]),
        st.sampled_from([None, -(1 << 40), -1, 0, 1, 7, 1 << 33]),
        st.sampled_from([1, 1, 1, 2]),
    ),
    max_size=12,
)


def closing(length: int = 1) -> WindowClosing:
    return WindowClosing(size=length, slide=1, offset=0, length=length, step=1, lateness=0, ticks=Ticks())


def slice_groups(schema: pa.Schema, length: int = 1) -> GroupSlices:
    out = pa.schema([schema.field(0), schema.field(1), *GIVEN])
    return GroupSlices(schema, (0, 1), MEASURES, out, closing(length), plan_path="here")


def group(schema: pa.Schema) -> Group:
    """The operator that gives groups of open slices out."""
    return Group(schema, (0, 1), MEASURES, pa.schema([schema.field(0), schema.field(1), *GIVEN]), plan_path="here")


def fed(operator: Group, rows: Sequence[Row], schema: pa.Schema) -> list[tuple[Row, int]]:
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(values, type_) for values, type_ in zip(columns[:3], schema.types, strict=True)]
    change = Change(Rows.of_arrays(arrays, len(rows)), np.array(columns[3], dtype=np.int64))
    assert list(operator.receive(0, change)) == []
    out = []
    while (due := operator.due()) is not None:
        out += [answer for part in operator.decide(due) for answer in listed(part, operator.schema)]
    return out


def advanced(operator: Group, watermark: int | None) -> list[tuple[Row, int]]:
    return [answer for part in operator.advance(watermark) for answer in listed(part, operator.schema)]


def listed(change: Change, schema: pa.Schema) -> list[tuple[Row, int]]:
    columns = [array.to_pylist() for array in change.rows.to_arrays(schema.types)]
    return list(zip(zip(*columns, strict=True), change.weights.tolist(), strict=True))


def answers(rows: Sequence[Row], first: int, end: int) -> list[tuple[Row, int]]:
    """The groups of the slices from `first` to before `end`, in plain Python."""
    groups: dict[Row, list[Row]] = {}
    for slice_, key, value, weight in rows:
        groups.setdefault((slice_, key), []).append((value, weight))
    out = []
    for group_key, kept in groups.items():
        values = [(value, weight) for value, weight in kept if value is not None]
        counted = sum(weight for _, weight in values)
        total = sum(value * weight for value, weight in values) if values else None
        if first <= group_key[0] < end:
            most = max((value for value, _ in values), default=None)
            out.append(((*group_key, sum(weight for _, weight in kept), counted, total, most), 1))
    return out


@settings(max_examples=tries(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    epochs=st.lists(st.tuples(ENTRIES, st.integers(0, 5)), min_size=1, max_size=6),
    base=st.sampled_from([0, -20, 1 << 50, (1 << 62) - 20]),
    texts=st.booleans(),
    length=st.sampled_from([1, 3]),
    restored=st.sampled_from([None, HeldState, MemoryState]),
)
def test_each_group_comes_once_when_a_window_has_its_slice(
    epochs: Sequence[tuple[Sequence[Row], int]], base: int, texts: bool, length: int, restored: Any
) -> None:
    schema = TEXTS if texts else NUMBERS
    operator, end, all_rows = slice_groups(schema, length), base, []
    for entries, passed in epochs:
        rows = [
            (end + slice_, str(key) if texts and key is not None else key, value, weight)
            for slice_, key, value, weight in entries
        ]
        all_rows += rows
        assert fed(operator, rows, schema) == []
        assert advanced(operator, IDLE) == advanced(operator, None) == []
        before, end = end, end + passed
        assert sorted(advanced(operator, end), key=repr) == sorted(answers(all_rows, before, end), key=repr)
        if restored is not None:
            state = restored()
            operator.save(state)
            operator = slice_groups(schema, length)
            operator.load(state)
    assert sorted(advanced(operator, UNBOUNDED), key=repr) == sorted(answers(all_rows, end, 1 << 63), key=repr)


def test_rows_with_a_null_key_leave_the_others_in_arrays() -> None:
    operator = slice_groups(NUMBERS)
    rows: list[Row] = [(0, 1, 5, 1), (0, None, 6, 1), (0, 1, 7, 1), (0, None, None, 2)]
    fed(operator, rows, NUMBERS)
    assert operator._sums.touched == 2
    assert sorted(advanced(operator, 1), key=repr) == sorted(answers(rows, 0, 1), key=repr)


def test_rows_that_are_deleted_on_time_are_in_no_group() -> None:
    operator = slice_groups(NUMBERS)
    fed(operator, [(0, 1, 5, 1), (0, 2, 6, 1)], NUMBERS)
    fed(operator, [(0, 1, 5, -1)], NUMBERS)
    assert advanced(operator, 1) == [((0, 2, 1, 1, 6, 6), 1)]


def test_a_sum_beyond_64_bits_is_an_error_that_names_the_key() -> None:
    operator = slice_groups(NUMBERS)
    fed(operator, [(0, 1, (1 << 63) - 1, 1), (0, 1, 1, 1)], NUMBERS)
    with pytest.raises(ExecutionError, match="beyond 64 bits, in the rows of the key"):
        advanced(operator, 1)


def test_a_sum_that_comes_back_within_64_bits_is_none() -> None:
    operator = slice_groups(NUMBERS)
    fed(operator, [(0, 1, (1 << 63) - 1, 1), (0, 1, 1, 1)], NUMBERS)
    fed(operator, [(0, 1, -1, 1)], NUMBERS)
    assert advanced(operator, 1) == [((0, 1, 3, 3, (1 << 63) - 1, (1 << 63) - 1), 1)]


def test_groups_of_open_slices_in_an_earlier_checkpoint_are_not_given_out_again() -> None:
    """Earlier versions gave the groups of an open slice out in each epoch, and kept what they gave."""
    before, state = group(NUMBERS), MemoryState()
    given_out = fed(before, [(0, 1, 5, 1), (1, 1, 6, 1), (1, 2, 7, 1), (2, 3, 8, 1)], NUMBERS)
    before.save(state)
    operator = slice_groups(NUMBERS)
    operator.load(state)
    fed(operator, [(1, 1, 4, 1), (1, 3, 9, 1), (1, 2, 7, -1)], NUMBERS)
    given_out += advanced(operator, 2)
    totals: dict[Row, int] = {}
    for row, weight in given_out:
        totals[row] = totals.get(row, 0) + weight
    assert {row: weight for row, weight in totals.items() if weight} == {
        (0, 1, 1, 1, 5, 5): 1,
        (1, 1, 2, 2, 10, 6): 1,
        (1, 3, 1, 1, 9, 9): 1,
        (2, 3, 1, 1, 8, 8): 1,
    }
    assert advanced(operator, 3) == []


def test_an_earlier_version_refuses_a_checkpoint_of_groups_that_were_not_given_out() -> None:
    operator, state = slice_groups(NUMBERS), MemoryState()
    fed(operator, [(0, 1, 5, 1)], NUMBERS)
    operator.save(state)
    with pytest.raises(CheckpointError, match="'tallies' has format version 2"):
        group(NUMBERS).load(state)
