from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.pipelines.slice_cuts import Bounds, are_even, slice_starts
from tidegate.operators.core.column import Slices

TIMES = st.integers(-(10**6), 10**6)
PIECES = st.lists(
    st.tuples(TIMES, st.integers(0, 1_000), st.integers(1, 10**6)).map(lambda one: (one[0], one[0] + one[1], one[2])),
    min_size=1,
    max_size=20,
)
SLICES = st.builds(Slices, st.integers(1, 5_000), TIMES)


@given(pieces=PIECES, slices=SLICES, channels=st.integers(2, 9))
def test_no_slice_with_rows_lies_in_two_ranges(pieces: list[Bounds], slices: Slices, channels: int) -> None:
    starts = slice_starts(pieces, channels, slices)
    end = max(high for _, high, _ in pieces) + 1
    assert len(starts) == channels - 1
    assert starts == sorted(starts)
    assert all((start - slices.origin) % slices.size == 0 for start in starts if start < end)
    assert all(start <= end for start in starts)


def test_a_range_begins_with_the_first_slice_behind_a_piece() -> None:
    pieces = [(at * 100, at * 100 + 99, 10) for at in range(-4, 4)]
    assert slice_starts(pieces, 2, Slices(30, 0)) == [0]
    assert slice_starts(pieces, 2, Slices(30, 7)) == [7]
    assert slice_starts(pieces, 4, Slices(30, 0)) == [-180, 0, 210]


def test_parts_are_even_while_slices_are_short() -> None:
    pieces = [(at * 100, at * 100 + 99, 10) for at in range(8)]
    assert are_even(pieces, 2, Slices(100, 0))
    assert are_even(pieces, 2, Slices(90, 0))
    assert not are_even(pieces, 2, Slices(700, 0))
    assert not are_even(pieces, 2, Slices(10_000, -5))
    assert not are_even(pieces, 16, Slices(1, 0))
