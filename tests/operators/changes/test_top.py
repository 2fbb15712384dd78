"""The first rows of each key."""

from collections import Counter
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.arrays.ordering import Order
from tidegate.operators.changes.top import Top

from ...searching import one_of_each, tries
from .timed import Bag, Row, Timed, change, check_timed, run_epoch, timed_epochs

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.string())])
ROW = st.tuples(st.sampled_from(["x", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from(["p", "q", None]))

MOST = (1 << 63) - 1


def first(bag: Bag, key: tuple[int, ...], offset: int, count: int) -> Bag:
    """By v descending, nulls first; ties by all columns, ascending, nulls last."""
    rows: dict[Row, list[Row]] = {}
    for row, weight in bag.items():
        rows.setdefault(tuple(row[at] for at in key), []).extend([row] * weight)
    result: Bag = Counter()
    for name, members in rows.items():
        members.sort(key=lambda row: (row[1] is not None, -(row[1] or 0), *((v is None, v or "") for v in row)))
        result.update((*name, *row) for row in members[offset : offset + count])
    return result


@pytest.mark.parametrize(
    ("offset", "count", "key", "depth"),
    one_of_each(
        (*limit, *more)
        for limit in [(0, 1), (1, 2), (0, 100), (1, MOST), (MOST, MOST)]
        for more in product([(), (0,)], [0, 1, 2])
    ),
)
def test_at_every_time_the_first_rows_are_there(depth: int, key: tuple[int, ...], offset: int, count: int) -> None:
    @settings(max_examples=tries(15), deadline=None)
    @given(timed_epochs([ROW], depth))
    def check(epochs: list[list[Timed]]) -> None:
        top = Top(
            SCHEMA, key, [Order(column=1, descending=True, nulls_first=True)], offset=offset, count=count, depth=depth
        )
        check_timed(top, lambda bags: first(bags[0], key, offset, count), [SCHEMA], epochs, depth)

    check()


def test_a_change_looks_at_few_rows_of_many() -> None:
    schema = pa.schema([("v", pa.int64())])
    top = Top(schema, [], [Order(column=0)], offset=0, count=10)
    run_epoch(top, [(0, change(schema, [((value,), 1, ()) for value in range(50_000)], 0))])
    before = top.touched
    given_out = run_epoch(top, [(0, change(schema, [((3,), -1, ())], 0))])
    assert sorted(given_out) == [((3,), -1, ()), ((10,), 1, ())]
    assert top.touched - before < 100


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(
    ("offset", "count", "wanted"),
    [
        (MOST, 2, [((1,), 1), ((2,), 1)]),
        (MOST - 1, MOST, [((1,), 2), ((2,), MOST - 2)]),
        (1, MOST, [((0,), MOST - 2), ((1,), 2)]),
        (0, 3, [((0,), 3)]),
        (MOST, MOST, [((1,), 1), ((2,), MOST - 1)]),
    ],
)
def test_copies_are_counted_beyond_64_bits(offset: int, count: int, wanted: list[tuple[Row, int]], depth: int) -> None:
    schema = pa.schema([("v", pa.int64())])
    top = Top(schema, [], [Order(column=0)], offset=offset, count=count, depth=depth)
    time = (0,) * depth
    rows = [((0,), MOST - 1, time), ((1,), 2, time), ((2,), MOST, time)]
    changes = run_epoch(top, [(0, change(schema, rows, depth))])
    assert sorted((row, weight) for row, weight, _ in changes) == wanted
