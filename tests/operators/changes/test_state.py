"""Arrangements in checkpoints: the same runs come back, and what is of another form is refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.operators.changes.kept.arrangement import Arrangement
from tidegate.operators.changes.kept.state_format import VERSION, load_arrangement, save_arrangement
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.testing import MemoryState
from tidegate.proto.errors import CheckpointError

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])


def arrangement(*sizes: int) -> Arrangement:
    """One that these many rows were inserted into, one lot after the other."""
    kept = Arrangement(SCHEMA.types, (0,), depth=1)
    for lot, size in enumerate(sizes):
        keys = pa.array([lot * 100_000 + at for at in range(size)], pa.int64())
        texts = pa.array([None if at % 7 == 0 else f"t{at}" for at in range(size)])
        rounds = np.full(size, lot, dtype=np.int64)
        kept.insert(Change(Rows.of_arrays([keys, texts], size), np.ones(size, dtype=np.int64), (rounds,)))
    return kept


def tables(kept: Arrangement) -> list[pa.Table]:
    """Of its runs, as a checkpoint has them."""
    state = MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    return list(state.read_parts("rows")[1])


@pytest.mark.parametrize("sizes", [(), (1,), (20_000, 600, 3)])
def test_the_same_runs_come_back(sizes: tuple[int, ...]) -> None:
    kept, again = arrangement(*sizes), arrangement()
    state = MemoryState()
    save_arrangement(state, "rows", kept, SCHEMA)
    load_arrangement(state, "rows", again, SCHEMA)
    assert len(again.runs) == len(kept.runs) == len(sizes)
    assert tables(again) == tables(kept)


def test_another_version_of_the_format_is_refused() -> None:
    state = MemoryState()
    state.write("rows", VERSION + 1, pa.table({"c0": [1]}))
    with pytest.raises(CheckpointError, match=f"'rows' has format version {VERSION + 1}.* reads version {VERSION}:"):
        load_arrangement(state, "rows", arrangement(), SCHEMA)


def test_columns_of_other_types_are_refused() -> None:
    state = MemoryState()
    save_arrangement(state, "rows", arrangement(3), SCHEMA)
    other = pa.schema([("k", pa.int64()), ("t", pa.binary())])
    with pytest.raises(CheckpointError, match=r"'rows' has columns .*string.* keeps .*binary") as refused:
        load_arrangement(state, "rows", Arrangement(other.types, (0,), depth=1), other)
    assert refused.value.reason == "CHECKPOINT_OTHER_STATE"
