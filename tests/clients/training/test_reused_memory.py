"""Memory of large arrays is used again once all arrays in it are gone, and never before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.training.order.reused_memory import HUGE_BYTES, WORTH_BYTES, ReusedMemory

LARGE = WORTH_BYTES


def address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


@example([(1, 0), (1, 0)])
@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 0, 1, 2])), max_size=30))
def test_the_rows_of_a_held_view_never_change(taken: list[tuple[int, int]]) -> None:
    arrays = ReusedMemory()
    held: list[tuple[npt.NDArray[Any], int]] = []
    for number, (size, forgotten) in enumerate(taken):
        array = arrays.empty((size * LARGE,), np.dtype(np.uint8))
        array.fill(number)
        held.append((array[: size * LARGE // 2].reshape(-1, 2)[1:], number))
        del array
        del held[:forgotten]
        assert all((view == value).all() for view, value in held)


@pytest.mark.parametrize("view", [lambda a: a[1:], lambda a: a.view(np.uint8), lambda a: a.reshape(2, -1)[1, 1:]])
def test_memory_is_free_only_with_the_last_view(view: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
    arrays = ReusedMemory()
    first = arrays.empty((LARGE,), np.dtype(np.int64))
    before, seen = address(first), view(first)
    del first
    second = arrays.empty((LARGE,), np.dtype(np.int64))
    assert address(second) != before
    del seen
    assert address(arrays.empty((LARGE,), np.dtype(np.int64))) == before


def test_memory_of_an_array_that_is_gone_is_used_again() -> None:
    arrays = ReusedMemory()
    first = arrays.empty((LARGE,), np.dtype(np.float64))
    before = address(first)
    del first
    assert address(arrays.empty((LARGE // 2, 2), np.dtype(np.float64))) == before


def test_a_small_array_takes_no_memory_of_a_much_larger_one() -> None:
    arrays = ReusedMemory()
    large = arrays.empty((10 * LARGE,), np.dtype(np.uint8))
    before = address(large)
    del large
    assert address(arrays.empty((2 * LARGE,), np.dtype(np.uint8))) != before


def test_memory_of_huge_arrays_is_not_kept() -> None:
    arrays = ReusedMemory()
    assert arrays.empty((HUGE_BYTES + 1,), np.dtype(np.uint8)).base is None
    assert arrays.empty((HUGE_BYTES,), np.dtype(np.uint8)).base is not None


def test_an_array_may_outlive_the_memory_of_the_others() -> None:
    arrays = ReusedMemory()
    array = arrays.empty((LARGE,), np.dtype(np.int64))
    array.fill(3)
    del arrays
    assert (array == 3).all()
