"""Breaks of a sort order, and whether keys are distinct, at any place of a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.arrays.ordering import Order, Ordering


@pytest.mark.parametrize("repeated", [None, 1, 63, 64, 65, 199])
@pytest.mark.parametrize("broken", [None, 1, 63, 64, 65, 199])
def test_a_batch_tells_its_first_break_and_whether_its_keys_are_distinct(
    broken: int | None, repeated: int | None
) -> None:
    keys = 2 * np.arange(200)
    if repeated is not None:
        keys[repeated] = keys[repeated - 1]
    if broken is not None:
        keys[broken] = keys[broken - 1] - 1
    sort_keys = Ordering([Order(column=0)]).keys(pa.record_batch([keys], names=["k"]))
    assert sort_keys.first_break() == broken
    if broken is None:
        assert sort_keys.distinct == (repeated is None)
