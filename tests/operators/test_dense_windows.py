"""Windows of groups in arrays, against plain Python, and row by row against the two operators that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.operators.core.streams import BatchStream
from tidegate.operators.duckdb.instances import Instance
from tidegate.operators.slices import dense_windows
from tidegate.operators.slices.dense_slices import DenseSlices, GroupsOfSlices
from tidegate.operators.slices.dense_windows import DenseWindows
from tidegate.operators.slices.group_positions import GroupKey
from tidegate.operators.slices.group_totals import GroupState
from tidegate.operators.slices.sliding_windows import SlidingWindows, WindowsOfSlices
from tidegate.operators.slices.windows_in_arrays import WindowsInArrays

from ..searching import tries
from .test_sliding_windows import Row, counted, naive

SIZE: Final = 10
"""The units of a slice."""
ROWS: Final = pa.schema(
    [("t", pa.int64()), ("number", pa.int32()), ("text", pa.string()), ("v", pa.int64()), ("on", pa.bool_())]
)
STATES: Final = pa.schema(
    [
        ("slice", pa.int64()),
        ("number", pa.int32()),
        ("text", pa.string()),
        ("sum", pa.decimal128(38, 0)),
        ("rows", pa.int64()),
        ("some", pa.int64()),
    ]
)
FUNCTIONS: Final = ("sum", "count", "count")
SLICE: Final = "(c0 // 10 - CAST(c0 % 10 < 0 AS BIGINT))"
GROUPS: Final = f"""
    SELECT {SLICE}, c1, c2, CAST(sum(c3) AS DECIMAL(38, 0)), count(*), count(c3) FILTER (WHERE c4)
    FROM in0 GROUP BY ({SLICE}, c1, c2)
"""


def groups_of(*, conditional: bool) -> GroupsOfSlices:
    """Groups of which the last count has a condition, so that sums and counts have arrays of their own; or has none, so
    that one word has both.
    """
    return GroupsOfSlices(
        keys=(GroupKey(column=0, size=SIZE), GroupKey(column=1), GroupKey(column=2, numbered=True)),
        states=(
            GroupState(function="sum", values=3, condition=None),
            GroupState(function="count", values=None, condition=None),
            GroupState(function="count", values=3, condition=4 if conditional else None),
        ),
        groups=GROUPS if conditional else GROUPS.replace(" FILTER (WHERE c4)", ""),
    )


def windows_of(length: int, step: int, *, plain: bool = True) -> WindowsOfSlices:
    return WindowsOfSlices(
        length=length,
        step=step,
        keys=2,
        functions=FUNCTIONS,
        values="SELECT c0, c1, c2, CAST(c3 AS BIGINT), c4, c5 FROM in0",
        plain=plain,
        windows="SELECT 1 / 0",
        long={},
    )


def schema_of(*, decimals: bool) -> pa.Schema:
    sums = pa.decimal128(38, 0) if decimals else pa.int64()
    return pa.schema([("window", pa.int64()), *[*STATES][1:3], ("sum", sums), *[*STATES][4:]])


def of_both(instance: Instance, rows: pa.Table, groups: GroupsOfSlices, windows: WindowsOfSlices) -> list[Row]:
    """The windows that `SlidingWindows` makes of the groups that `DenseSlices` makes."""
    slices = DenseSlices(ROWS, groups=groups, schema=STATES, size_class=1_000, instance=instance)
    schema = schema_of(decimals=False)
    sliding = SlidingWindows(STATES, windows=windows, schema=schema, size_class=1_000, instance=instance)
    parts = BatchStream(STATES, slices.run([BatchStream(ROWS, rows.to_batches())]))
    result = pa.Table.from_batches(sliding.run([parts]), schema)
    slices.close()
    sliding.close()
    return listed(result)


def dense_windows_of(
    instance: Instance, groups: GroupsOfSlices, windows: WindowsOfSlices, schema: pa.Schema | None = None
) -> DenseWindows:
    return DenseWindows(
        ROWS,
        groups=groups,
        states=STATES,
        windows=windows,
        schema=schema or schema_of(decimals=False),
        size_class=1_000,
        instance=instance,
    )


def run(operator: DenseWindows, rows: pa.Table, at_once: int = 1_000) -> pa.Table:
    try:
        stream = BatchStream(ROWS, rows.to_batches(max_chunksize=at_once))
        return pa.Table.from_batches(operator.run([stream]), operator.schema)
    finally:
        operator.close()


def listed(rows: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def table(rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(ROWS)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, ROWS.types, strict=True)]
    return pa.table(arrays, schema=ROWS)


def expected(rows: Sequence[Row], length: int, step: int, *, conditional: bool) -> list[Row]:
    slices = [
        (t // SIZE, number, text, v, 1, int(v is not None and (on is True or not conditional)))
        for t, number, text, v, on in rows
        if t is not None
    ]
    return naive(slices, FUNCTIONS, length, step, 2)


ANY_ROWS: Final = st.lists(
    st.tuples(
        st.none() | st.integers(-90, 200),
        st.none() | st.integers(-3, 3) | st.sampled_from([40, 41]),
        st.none() | st.sampled_from(["", "a", "b", "c"]),
        st.none() | st.integers(-5, 5) | st.sampled_from([2**40, -(2**50)]),
        st.none() | st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=tries(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=ANY_ROWS,
    length=st.integers(1, 8),
    step=st.integers(1, 9),
    conditional=st.booleans(),
    at_once=st.sampled_from([1, 7, 1_000]),
)
@example(rows=[], length=2, step=1, conditional=False, at_once=1)
@example(rows=[(None, 1, "a", 1, True)], length=2, step=1, conditional=False, at_once=1)
@example(rows=[(15, 1, "a", 1, True)], length=2, step=9, conditional=False, at_once=1)
def test_windows_are_those_of_plain_python_in_the_order_of_the_two_operators(
    warm: Instance, rows: list[Row], length: int, step: int, conditional: bool, at_once: int
) -> None:
    groups, windows = groups_of(conditional=conditional), windows_of(length, step)
    result = listed(run(dense_windows_of(warm, groups, windows), table(rows), at_once))
    assert counted(result) == counted(expected(rows, length, step, conditional=conditional))
    assert result == of_both(warm, table(rows), groups, windows)


def spread(count: int, text: bool = True) -> list[Row]:
    """Rows of 7 numbers and 3 texts in 20 slices."""
    return [(at % 200, at * at % 7, f"text {at % 3}" if text else None, at, at % 2 == 0) for at in range(count)]


@pytest.fixture
def no_group_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise AssertionError("a group became a row")

    monkeypatch.setattr(dense_windows.DenseWindows, "_parts", fails)


@pytest.mark.usefixtures("no_group_becomes_a_row")
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_windows_of_counts_and_sums_are_made_of_the_arrays(warm: Instance, conditional: bool, plain: bool) -> None:
    rows = spread(2_000)
    operator = dense_windows_of(warm, groups_of(conditional=conditional), windows_of(6, 1, plain=plain))
    result = listed(run(operator, table(rows)))
    assert counted(result) == counted(expected(rows, 6, 1, conditional=conditional))


@pytest.mark.usefixtures("no_group_becomes_a_row")
def test_sums_have_the_type_of_their_states_where_measures_have_it(warm: Instance) -> None:
    rows = spread(500)
    operator = dense_windows_of(warm, groups_of(conditional=False), windows_of(3, 2), schema_of(decimals=True))
    result = run(operator, table(rows))
    assert result.schema.types[3] == pa.decimal128(38, 0)
    assert counted(listed(result)) == counted(expected(rows, 3, 2, conditional=False))


@pytest.mark.usefixtures("no_group_becomes_a_row")
def test_windows_come_in_batches_of_at_most_a_block(warm: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.operators.slices.windows_in_arrays.BLOCK_ROWS", 50)
    rows = spread(2_000)
    result = run(dense_windows_of(warm, groups_of(conditional=False), windows_of(60, 1)), table(rows))
    assert max(len(chunk) for chunk in result.column(0).chunks) == 50
    assert counted(listed(result)) == counted(expected(rows, 60, 1, conditional=False))


def test_windows_with_few_groups_among_many_places_are_made_of_rows(warm: Instance) -> None:
    """Each key has one slice of 300."""
    rows = [(at * 10, at, "a", 1, True) for at in range(300)]
    operator = dense_windows_of(warm, groups_of(conditional=False), windows_of(2, 1))
    calls: list[bool] = []
    sliding = operator._sliding.run

    def noted(inputs: Any) -> Any:
        calls.append(True)
        return sliding(inputs)

    operator._sliding.run = noted  # type: ignore[method-assign]
    result = listed(run(operator, table(rows)))
    assert calls == [True]
    assert counted(result) == counted(expected(rows, 2, 1, conditional=False))


def test_windows_of_rows_that_arrays_have_no_room_for_are_made_of_rows(warm: Instance) -> None:
    rows = [*spread(100), (5, 2**31 - 1, "a", 1, True)]
    operator = dense_windows_of(warm, groups_of(conditional=False), windows_of(3, 1))
    result = listed(run(operator, table(rows), at_once=100))
    assert counted(result) == counted(expected(rows, 3, 1, conditional=False))


def test_a_window_may_be_longer_than_all_slices_by_far(warm: Instance) -> None:
    rows = spread(100)
    step = 10**9
    operator = dense_windows_of(warm, groups_of(conditional=False), windows_of(5 * step, step))
    result = listed(run(operator, table(rows)))
    assert counted(result) == counted(expected(rows, 5 * step, step, conditional=False))


def test_numbers_of_windows_beyond_64_bits_are_left_to_others(warm: Instance) -> None:
    groups = groups_of(conditional=False)
    operator = dense_windows_of(warm, groups, windows_of(1 << 61, 1 << 61))
    arrays = operator._counted(BatchStream(ROWS, table(spread(10)).to_batches())).arrays
    types = [pa.int64(), pa.int32(), pa.string()]
    assert arrays.windows(types, 1 << 61, 1 << 61) is None
    assert isinstance(arrays.windows(types, 2, 1), WindowsInArrays)
    operator.close()


def test_more_windows_than_the_arrays_have_places_are_made_of_rows(warm: Instance) -> None:
    groups = groups_of(conditional=False)
    operator = dense_windows_of(warm, groups, windows_of(2, 1))
    arrays = operator._counted(BatchStream(ROWS, table(spread(10)).to_batches())).arrays
    types = [pa.int64(), pa.int32(), pa.string()]
    assert isinstance(arrays.windows(types, operator._places // 2, 1), WindowsInArrays)
    assert arrays.windows(types, operator._places + 1, 1) is None
    operator.close()


@pytest.mark.usefixtures("no_group_becomes_a_row")
def test_running_sums_of_many_slices_are_made_for_a_block_of_them(
    warm: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 20 slices are in a few windows of each key."""
    monkeypatch.setattr("tidegate.operators.slices.windows_in_arrays.BLOCK_ROWS", 50)
    sizes: list[int] = []
    slid = WindowsInArrays._slid

    def noted(windows: WindowsInArrays, cells: Any, columns: Any) -> Any:
        sizes.append(len(cells) * len(columns))
        return slid(windows, cells, columns)

    monkeypatch.setattr(WindowsInArrays, "_slid", noted)
    rows = spread(2_000)
    result = listed(run(dense_windows_of(warm, groups_of(conditional=False), windows_of(20, 20)), table(rows)))
    assert counted(result) == counted(expected(rows, 20, 20, conditional=False))
    assert max(sizes) <= 50
