"""Narrow columns are gathered together, and give the rows that each of them gives alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.training.building.row_gathering import WORTH_BYTES, RowGathering

KINDS = ("f8", "i8", "i4", "u1", "f2", "?", "M8[us]", "lists", "texts")
SIZES = st.lists(st.one_of(st.integers(0, 50), st.just(WORTH_BYTES // 8)), min_size=1, max_size=3)


def rows_of(kind: str, first: int, rows: int) -> npt.NDArray[Any] | pa.Array:
    numbers = np.arange(first, first + rows)
    match kind:
        case "texts":
            return pa.array(numbers).cast(pa.string())
        case "lists":
            return np.stack([numbers, -numbers], axis=1)
        case _:
            return (numbers % 1_000).astype(kind)


@given(sizes=SIZES, kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=9), seed=st.integers(0, 9))
def test_rows_are_those_of_each_column_alone(sizes: list[int], kinds: list[str], seed: int) -> None:
    columns = [
        [rows_of(kind, 1_000 * at + first, rows) for first, rows in enumerate(sizes)] for at, kind in enumerate(kinds)
    ]
    random = np.random.default_rng(seed)
    positions = random.permutation(sum(sizes))[: random.integers(0, sum(sizes) + 1)]
    for rows, parts in zip(RowGathering().all_taken(columns, positions), columns, strict=True):
        if isinstance(rows, pa.Array):
            assert rows.equals(pa.concat_arrays(parts).take(pa.array(positions)))
        else:
            assert np.array_equal(rows, np.concatenate(parts)[positions])
            assert rows.dtype == parts[0].dtype
            assert rows.flags.c_contiguous
            assert rows.flags.writeable


@pytest.mark.parametrize("kinds", [("i8", "f8"), ("M8[us]", "i8")])
def test_numbers_of_one_type_are_not_taken_for_those_of_another(kinds: tuple[str, str]) -> None:
    parts = [np.arange(WORTH_BYTES // 8).astype(kind) for kind in kinds]
    with pytest.raises(TypeError):
        RowGathering().all_taken([parts], np.array([0, len(parts[0])]))


@pytest.mark.parametrize("rows", [WORTH_BYTES // 8, 100])
def test_who_keeps_a_column_keeps_no_other(rows: int) -> None:
    parts = [np.arange(rows // 2), np.arange(rows - rows // 2)]
    taken = RowGathering().all_taken([parts] * 5, np.arange(rows))
    begins = sorted(values.__array_interface__["data"][0] for values in taken)
    assert all(end - begin >= 8 * rows for begin, end in pairwise(begins))
    assert len({id(values.base) for values in taken if values.base is not None}) in {0, 5}


@pytest.mark.parametrize("position", [-1, WORTH_BYTES // 8])
def test_a_position_beyond_the_rows_is_refused(position: int) -> None:
    parts = [np.arange(WORTH_BYTES // 16), np.arange(WORTH_BYTES // 16)]
    with pytest.raises(IndexError, match="of 131072 rows"):
        RowGathering().all_taken([parts], np.array([0, position]))
