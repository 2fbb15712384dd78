"""An input's rows, held so that a statement can be run again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators.duckdb.held import HeldRows
from tidegate.proto.arrow.spill_buffer import SpillRoom

BATCHES = [pa.record_batch({"x": [number]}) for number in range(8)]


def values(rows: HeldRows, *, again: bool, most: int | None = None) -> list[int]:
    return [batch["x"][0].as_py() for batch in islice(rows.read(again=again), most)]


@pytest.mark.parametrize("in_memory", [-1, 0, 20])
@pytest.mark.parametrize("read", [0, 1, 4, 8])
def test_what_is_taken_into_memory_after_a_reading_was_left_does_not_come_before_what_was_read(
    in_memory: int, read: int, tmp_path: Path
) -> None:
    rows = HeldRows(iter(BATCHES), SpillRoom(str(tmp_path)))
    rows.fill(in_memory)
    assert values(rows, again=True, most=read) == list(range(read))
    rows.fill(1_000)
    assert values(rows, again=False) == list(range(8))
    rows.close()
