"""The as-of merge join, against plain Python that looks through all right rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.as_of_merge_join import AsOfMergeJoin
from tidegate.operators.core.blocks import BLOCK_BYTES
from tidegate.operators.core.streams import BatchStream
from tidegate.operators.testing import CHECKS, Case
from tidegate.proto.errors import ExecutionError

from .data import run

Row: TypeAlias = tuple[str | None, int, int]
SCHEMA = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.int64())])
FAR = 2**62


def join(
    side: pa.Schema = SCHEMA, *, outer: bool = True, tolerance: int | None = None, keyed: bool = True
) -> AsOfMergeJoin:
    return AsOfMergeJoin(
        left=side,
        right=side,
        keys=[(0, 0)] if keyed else [],
        ticks=(1, 1),
        outer=outer,
        tolerance=tolerance,
        schema=pa.schema([pa.field(f"c{at}", field.type) for at, field in enumerate([*side, *side])]),
        plan_path="relations[0]",
    )


def table(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def in_order(rows: Sequence[Row], *, keyed: bool) -> list[Row]:
    """The rows as the operator wants them; `v` has the order of rows of one time."""
    ordered = sorted(rows, key=lambda row: (keyed and row[0] is None, keyed and row[0] is not None and row[0], row[1]))
    return [(key, tick, at) for at, (key, tick, _) in enumerate(ordered)]


def expected(
    left: Sequence[Row], right: Sequence[Row], *, outer: bool, tolerance: int | None, keyed: bool
) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for key, tick, value in left:
        matches = [
            other
            for other in right
            if (not keyed or (key is not None and other[0] == key))
            and other[1] <= tick
            and (tolerance is None or tick - other[1] <= tolerance)
        ]
        if matches or outer:
            rows.append((key, tick, value, *max(matches, key=lambda other: other[1:], default=(None,) * 3)))
    return rows


def tuples(rows: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows]


ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b", "b\0", "a long key", "a longer key"]),
        st.integers(-9, 9) | st.sampled_from([-(2**63), -FAR, FAR, 2**63 - 1]),
        st.just(0),
    ),
    max_size=24,
)


@given(
    ROWS,
    ROWS,
    st.booleans(),
    st.none() | st.integers(0, 6) | st.just(2**63 - 1),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_each_left_row_has_the_latest_right_row_however_both_are_cut(
    left: list[Row],
    right: list[Row],
    outer: bool,
    tolerance: int | None,
    keyed: bool,
    left_size: int,
    right_size: int,
) -> None:
    left, right = in_order(left, keyed=keyed), in_order(right, keyed=keyed)
    operator = join(outer=outer, tolerance=tolerance, keyed=keyed)
    streams = [
        BatchStream(SCHEMA, table(rows).to_batches(max_chunksize=size))
        for rows, size in ((left, left_size), (right, right_size))
    ]
    answer = [row for batch in operator.run(streams) for row in batch.to_pylist()]
    assert tuples(answer) == expected(left, right, outer=outer, tolerance=tolerance, keyed=keyed)


LEFT = table([("a", 1, 0), ("a", 5, 1), ("a", 5, 2), ("b", 2, 3), (None, 9, 4)])
RIGHT = table([("a", 2, 0), ("a", 5, 1), ("a", 5, 2), ("b", 3, 3), (None, 1, 4)])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("outer", [True, False])
def test_an_as_of_merge_join_conforms(check: Callable[[Case], None], outer: bool) -> None:
    epochs = [[LEFT, RIGHT], [LEFT.slice(0, 0), RIGHT], [LEFT, RIGHT.slice(0, 0)], [LEFT.slice(2), RIGHT.slice(1)]]
    check(Case(make=lambda: join(outer=outer), epochs=epochs))


def test_of_right_rows_of_one_time_the_last_one_counts_and_null_keys_match_nothing() -> None:
    assert tuples(run(join(), LEFT, RIGHT)) == [
        ("a", 1, 0, None, None, None),
        ("a", 5, 1, "a", 5, 2),
        ("a", 5, 2, "a", 5, 2),
        ("b", 2, 3, None, None, None),
        (None, 9, 4, None, None, None),
    ]


def test_a_wide_right_row_beside_many_left_rows_comes_in_batches_of_bounded_size() -> None:
    schema = pa.schema([("t", pa.int64()), ("s", pa.string())])
    left, right = pa.table({"t": range(2_000)}), pa.table([[0], ["x" * 100_000]], schema)
    operator = AsOfMergeJoin(
        left=left.schema,
        right=schema,
        keys=[],
        ticks=(0, 0),
        outer=False,
        tolerance=None,
        schema=pa.schema([("t", pa.int64()), *schema]),
    )
    batches = list(operator.run([BatchStream(rows.schema, rows.to_batches()) for rows in (left, right)]))
    assert sum(batch.num_rows for batch in batches) == left.num_rows
    assert max(batch.nbytes for batch in batches) <= 2 * BLOCK_BYTES


@pytest.mark.parametrize("side", [0, 1])
def test_an_input_that_is_not_sorted_is_an_error_that_names_it(side: int) -> None:
    inputs = [LEFT, RIGHT]
    inputs[side] = table([("b", 1, 0), ("a", 1, 0)])
    with pytest.raises(ExecutionError, match=f"the {('left', 'right')[side]} input .* must be sorted by 'k' ascending"):
        run(join(), *inputs)
