"""Pairs of rows with one key, for as long as both are there."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.operators.changes.join import Join, JoinKey
from tidegate.operators.changes.kept.pairs import PAIRS
from tidegate.operators.changes.values.change import Change, ones
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.changes.values.value_columns import Mask

from ...searching import in_search, tries
from .timed import Bag, Timed, change, check_timed, timed_epochs

LEFT = pa.schema([("k", pa.int32()), ("v", pa.string())])
RIGHT = pa.schema([("w", pa.float64()), ("k", pa.int32())])
KEYS = st.sampled_from([1, 2, None])
ROWS = [st.tuples(KEYS, st.sampled_from(["x", "yy"])), st.tuples(st.sampled_from([0.0, 1.5]), KEYS)]


def pairs(inputs: Sequence[Bag], *, nulls_match: bool = False, least: float = 0) -> Bag:
    result: Bag = Counter()
    for (k, v), mine in inputs[0].items():
        for (w, other), theirs in inputs[1].items():
            if k == other and (k is not None or nulls_match) and w >= least:
                result[k, v, w] += mine * theirs
    return result


@pytest.mark.parametrize("nulls_match", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_pair_is_there_from_the_later_of_its_rounds(depth: int, nulls_match: bool) -> None:
    @settings(max_examples=tries(15), deadline=None)
    @given(timed_epochs(ROWS, depth))
    def check(epochs: list[list[Timed]]) -> None:
        join = Join(LEFT, RIGHT, [JoinKey(0, 1, nulls_match)], [0, 1, 2], depth=depth)
        check_timed(join, lambda bags: pairs(bags, nulls_match=nulls_match), [LEFT, RIGHT], epochs, depth)

    check()


def test_a_condition_sees_left_columns_then_right_ones() -> None:
    def large(pairs: Rows) -> Mask:
        return pairs.columns[2].to_arrow(pa.float64()).to_numpy() >= 1

    @settings(max_examples=tries(15), deadline=None)
    @given(timed_epochs(ROWS, 0))
    def check(epochs: list[list[Timed]]) -> None:
        join = Join(LEFT, RIGHT, [JoinKey(0, 1)], [0, 1, 2], condition=large)
        check_timed(join, lambda bags: pairs(bags, least=1), [LEFT, RIGHT], epochs, 0)

    check()


def test_a_weight_beyond_64_bits_is_an_error() -> None:
    join = Join(LEFT, RIGHT, [JoinKey(0, 1)], [0])
    one = change(LEFT, [((1, "x"), 1, ())], 0)
    many = change(RIGHT, [((1.5, 1), 1, ())], 0)
    list(join.receive(0, Change(one.rows, np.array([1 << 40]), ())))
    with pytest.raises(OverflowError, match="a pair's weight is 1208925819614629174706176"):
        list(join.receive(1, Change(many.rows, np.array([1 << 40]), ())))


@pytest.mark.parametrize("factor", [1, 1 << 40], ids=["keys close together", "keys far apart"])
def test_pairs_beyond_all_bounds_are_made_part_by_part(factor: int) -> None:
    """Whoever takes them can stop at any: all 400 million would not find room."""
    both = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    join = Join(both, both, [JoinKey(0, 0)], [1, 3])
    positions = np.arange(200_000)
    arrays = [pa.array(positions % 100 * factor), pa.array(positions)]
    one = Change(Rows.of_arrays(arrays, len(positions)), np.ones(len(positions), dtype=np.int64))
    assert list(join.receive(0, one)) == []
    assert 0 < len(next(iter(join.receive(1, one)))) <= PAIRS


@pytest.mark.parametrize(("kept", "depth"), [("numbers", 1), ("texts", 0), *in_search(("numbers", 0), ("texts", 1))])
def test_pairs_of_one_hot_key_are_made_part_by_part(kept: str, depth: int) -> None:
    """However the rows are kept, and though a single row has more than a part of them."""
    hot, values = 2 * PAIRS, pa.array(range(2 * PAIRS))
    left = pa.schema([("k", pa.int64())])
    right = pa.schema([("k", pa.int64()), ("v", pa.int64() if kept == "numbers" else pa.string())])
    join = Join(left, right, [JoinKey(0, 0)], [0, 2], depth=depth)
    rows = Rows.of_arrays([pa.array([7] * hot), values.cast(right.field("v").type)], hot)
    nothing = (np.zeros(1, dtype=np.int64),) * depth
    assert list(join.receive(1, Change(rows, ones(hot), tuple(n.repeat(hot) for n in nothing)))) == []
    many = Change(
        Rows.of_arrays([pa.array([7] * 65_536)], 65_536), ones(65_536), tuple(n.repeat(65_536) for n in nothing)
    )
    sizes = [len(part) for part in islice(join.receive(0, many), 5)]
    assert (max(sizes) <= PAIRS, sum(sizes) >= hot) == (True, True)


@pytest.mark.parametrize("port", [0, 1], ids=["long rows are kept", "long rows come"])
def test_pairs_of_long_rows_are_made_some_megabytes_at_a_time(port: int) -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.string())])
    join = Join(schema, LEFT, [JoinKey(0, 0)], [0, 1], depth=0)
    texts = [str(number) * 20_000 for number in range(10, 60)]
    changes = [
        Change(Rows.of_arrays([pa.array([7] * 50), pa.array(texts)], 50), ones(50)),
        Change(Rows.of_arrays([pa.array([7] * 50, pa.int32()), pa.array(list(map(str, range(50))))], 50), ones(50)),
    ]
    assert list(join.receive(port, changes[port])) == []
    parts = list(join.receive(1 - port, changes[1 - port]))
    assert (max(part.nbytes for part in parts) < 9 << 20, sum(map(len, parts))) == (True, 50 * 50)
