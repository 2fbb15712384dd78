"""Running aggregates of groups."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.group import Count, Extreme, Group, Sum
from tidegate.operators.changes.values.change import Change
from tidegate.proto.errors import ExecutionError

from ...searching import tries
from .timed import Bag, Row, Timed, bag_of, change, check_timed, run_epoch, timed_epochs

SCHEMA = pa.schema(
    [("k", pa.int64()), ("i", pa.int32()), ("d", pa.decimal128(20, 2)), ("s", pa.string()), ("f", pa.float64())]
)
ROW = st.tuples(
    st.sampled_from([1, 2, None]),
    st.sampled_from([-(2**31), 0, 7, None]),
    st.sampled_from([Decimal("-999999999999999999.99"), Decimal("0.01"), None]),
    st.sampled_from(["", "a", "b", None]),
    st.sampled_from([-1.5, 0.0, float("inf"), None]),
)
MEASURES = [Count(), Count(1), Sum(1), Sum(2), Extreme(3, greatest=True), Extreme(3, greatest=False), Extreme(4, True)]
TYPES = [pa.int64(), pa.int64(), pa.int64(), pa.decimal128(38, 2), pa.string(), pa.string(), pa.float64()]


def output(key: Sequence[int]) -> pa.Schema:
    fields = [*(SCHEMA.field(at) for at in key), *(pa.field(f"m{at}", type_) for at, type_ in enumerate(TYPES))]
    return pa.schema(fields)


def groups(bag: Bag, key: Sequence[int]) -> Bag:
    rows: dict[Row, list[Row]] = {} if key else {(): []}
    for row, weight in bag.items():
        rows.setdefault(tuple(row[at] for at in key), []).extend([row] * weight)
    return Counter({(*name, *answers(members)): 1 for name, members in rows.items() if members or not key})


def answers(rows: Sequence[Row]) -> Row:
    def values(at: int) -> list:
        return [row[at] for row in rows if row[at] is not None]

    return (
        len(rows),
        len(values(1)),
        sum(values(1)) if values(1) else None,
        sum(values(2)) if values(2) else None,
        max(values(3), default=None),
        min(values(3), default=None),
        max(values(4), default=None),
    )


@pytest.mark.parametrize("key", [(), (0,), (0, 3)])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_at_every_time_groups_have_the_values_of_their_rows(depth: int, key: tuple[int, ...]) -> None:
    @settings(max_examples=tries(8), deadline=None)
    @given(timed_epochs([ROW], depth))
    def check(epochs: list[list[Timed]]) -> None:
        group = Group(SCHEMA, key, MEASURES, output(key), plan_path="here", depth=depth, always=not key)
        check_timed(group, lambda bags: groups(bags[0], key), [SCHEMA], epochs, depth)

    check()


def test_the_least_value_is_found_behind_many_that_are_gone() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    out = pa.schema([("k", pa.int64()), ("least", pa.int64())])
    group = Group(schema, [0], [Extreme(1, greatest=False)], out, plan_path="here")
    many = change(schema, [((1, value), 1, ()) for value in range(5_000)], 0)
    gone = change(schema, [((1, value), -1, ()) for value in range(4_990)], 0)
    assert run_epoch(group, [(0, many)]) == [((1, 0), 1, ())]
    assert sorted(run_epoch(group, [(0, gone)])) == [((1, 0), -1, ()), ((1, 4_990), 1, ())]


def test_a_change_of_a_large_group_touches_few_of_its_rows() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    out = pa.schema([("k", pa.int64()), ("sum", pa.int64()), ("least", pa.int64())])
    group = Group(schema, [0], [Sum(1), Extreme(1, greatest=False)], out, plan_path="here")
    run_epoch(group, [(0, change(schema, [((1, value), 1, ()) for value in range(50_000)], 0))])
    before = group.touched
    run_epoch(group, [(0, change(schema, [((1, 0), -1, ())], 0))])
    assert group.touched - before < 50


def test_a_sum_beyond_64_bits_is_an_error_that_says_where() -> None:
    schema = pa.schema([("v", pa.int64())])
    group = Group(schema, [], [Sum(0)], schema, plan_path="relations[0]", always=True)
    list(group.receive(0, change(schema, [((2**63 - 1,), 2, ())], 0)))
    with pytest.raises(ExecutionError, match=r"relations\[0\]: a sum is 18446744073709551614, which is beyond 64 bits"):
        list(group.decide(()))


def test_unsigned_values_are_summed_exactly() -> None:
    schema = pa.schema([("v", pa.uint64())])
    out = pa.schema([("sum", pa.decimal128(38, 0))])
    group = Group(schema, [], [Sum(0)], out, plan_path="here", always=True)
    (summed,) = run_epoch(group, [(0, change(schema, [((2**64 - 1,), 3, ())], 0))])
    assert summed == ((Decimal(3 * (2**64 - 1)),), 1, ())


def test_more_copies_of_a_row_than_can_be_summed_are_an_error() -> None:
    schema = pa.schema([("v", pa.int64())])
    group = Group(schema, [], [Sum(0)], schema, plan_path="here", always=True)
    one = change(schema, [((1,), 1, ())], 0)
    list(group.receive(0, Change(one.rows, np.array([1 << 31]), ())))
    with pytest.raises(ExecutionError, match=r"2\*\*31 copies"):
        list(group.decide(()))


def test_so_many_copies_that_come_and_go_in_one_epoch_are_none() -> None:
    schema = pa.schema([("v", pa.int64())])
    group = Group(schema, [], [Sum(0)], schema, plan_path="here", always=True)
    one = change(schema, [((7,), 1, ())], 0)
    received = [(0, Change(one.rows, np.array([weight]), ())) for weight in (1 << 40, 3, -(1 << 40))]
    assert run_epoch(group, received) == [((21,), 1, ())]


def test_the_row_of_no_rows_is_given_out_once() -> None:
    schema = pa.schema([("v", pa.int64())])
    out = pa.schema([("n", pa.int64()), ("sum", pa.int64())])
    group = Group(schema, [], [Count(), Sum(0)], out, plan_path="here", always=True)
    assert run_epoch(group, []) == [((0, None), 1, ())]
    assert run_epoch(group, []) == []
    assert bag_of(out, change(out, [], 0)) == []
