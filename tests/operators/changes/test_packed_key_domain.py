"""Rows of whole numbers as single numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.changes.kept.packed_key_domain import PackedKeyDomain
from tidegate.operators.changes.values.rows import Rows

TYPES = [pa.int64(), pa.int32()]
PAIRS = st.lists(st.tuples(st.integers(-50, 50), st.integers(-9, 9)), min_size=1)
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def rows(pairs: list[tuple[int, int]]) -> Rows:
    return Rows.of_arrays(
        [pa.array(values, type_) for values, type_ in zip(zip(*pairs, strict=True), TYPES, strict=True)], len(pairs)
    )


def single(*values: int | None) -> Rows:
    return Rows.of_arrays([pa.array(values, pa.int64())], len(values))


def listed(some: Rows) -> list[tuple[int, int]]:
    return list(zip(*(array.to_pylist() for array in some.to_arrays(TYPES)), strict=True))


@given(PAIRS)
def test_places_are_in_the_order_of_rows_and_lead_back_to_them(pairs: list[tuple[int, int]]) -> None:
    domain = PackedKeyDomain.around(rows(pairs))
    assert domain is not None
    positions = domain.positions(rows(pairs))
    assert positions is not None
    assert 0 <= positions.min() <= positions.max() < domain.size
    assert listed(domain.rows(np.sort(positions))) == sorted(pairs)


@given(PAIRS, PAIRS)
def test_an_extended_box_holds_what_it_held_and_more(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    domain = PackedKeyDomain.around(rows(before))
    assert domain is not None
    larger = domain.extended(rows(after))
    assert larger is not None
    positions = larger.positions(rows(before + after))
    assert positions is not None
    assert listed(larger.rows(positions)) == before + after


@given(PAIRS, st.tuples(st.integers(LEAST, MOST), st.integers(-9, 9)))
def test_only_a_row_inside_has_a_place(pairs: list[tuple[int, int]], row: tuple[int, int]) -> None:
    domain = PackedKeyDomain.around(rows(pairs))
    assert domain is not None
    inside = all(low <= value < low + size for value, low, size in zip(row, domain.lows, domain.shape, strict=True))
    assert (domain.positions(rows([row])) is not None) == inside


@pytest.mark.parametrize(
    "some",
    [
        single(1, None),
        single(LEAST, MOST),
        single(MOST - 2, MOST - 1, MOST),
        Rows.of_arrays([pa.array([1.0, 2.0])], 2),
        Rows.of_arrays([pa.array(["a", "b"])], 2),
        Rows((), 2),
    ],
    ids=["nulls", "far apart", "a domain beyond 64 bits", "floats", "texts", "no columns"],
)
def test_not_all_rows_have_a_box(some: Rows) -> None:
    assert PackedKeyDomain.around(some) is None


def test_a_box_is_extended_to_the_least_and_the_largest_numbers_there_are_or_not_at_all() -> None:
    low = PackedKeyDomain.around(single(LEAST + 1, LEAST + 4))
    assert low is not None
    extended = low.extended(single(LEAST))
    assert extended is None or extended.positions(single(LEAST, LEAST + 4)) is not None
    assert low.extended(single(MOST)) is None
