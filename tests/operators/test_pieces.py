"""The pairs of a merge join are cut by their bytes, at a cost that follows the pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.core.blocks import BLOCK_BYTES
from tidegate.operators.core.sizes import row_bytes
from tidegate.operators.merging import pieces
from tidegate.operators.merging.pieces import affordable


def texts(*lengths: int) -> pa.RecordBatch:
    return pa.record_batch({"t": ["x" * length for length in lengths]})


def test_no_part_is_larger_than_a_block_but_for_one_pair() -> None:
    probe, held = texts(10, 3 << 20, 20 << 20), texts(5, 2 << 20)
    probe_rows, held_rows = np.array([0, 1, 1, 1, 1, 2, -1, 0]), np.array([0, 1, 1, 1, 1, 1, 1, -1])
    parts = list(affordable(probe, probe_rows, held, held_rows))
    assert [(part.start, part.stop) for part in parts] == [(0, 4), (4, 5), (5, 6), (6, 8)]
    sizes = [np.append(row_bytes(batch), 0) for batch in (probe, held)]
    taken = [int(sizes[0][probe_rows[part]].sum() + sizes[1][held_rows[part]].sum()) for part in parts]
    assert [size <= BLOCK_BYTES for size in taken] == [True, True, False, True]


def test_only_the_rows_of_the_pairs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def counted(batch: pa.RecordBatch) -> object:
        looked_at.append(batch.num_rows)
        return row_bytes(batch)

    monkeypatch.setattr(pieces, "row_bytes", counted)
    probe, held = texts(*[1] * 5_000), texts(*[1] * 100)
    for row in range(5_000):
        assert len(list(affordable(probe, np.full(100, row), held, np.arange(100)))) == 1
    assert sum(looked_at) == 5_000 * (1 + 100)
