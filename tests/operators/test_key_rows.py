from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators.core.key_rows import Holding, KeyRows
from tidegate.proto.errors import Exhausted

SCHEMA = pa.schema([("x", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string()))])


def batch(numbers: list[int], text: str) -> pa.RecordBatch:
    texts = pa.array([text] * len(numbers)).dictionary_encode().cast(SCHEMA.field(1).type)
    return pa.record_batch([pa.array(numbers), texts], schema=SCHEMA)


@pytest.mark.parametrize(("limit", "spilled"), [(1 << 20, False), (300, True), (0, True)])
def test_rows_are_read_again_in_order_wherever_they_are(limit: int, spilled: bool, tmp_path: Path) -> None:
    held = KeyRows(Holding(memory_limit=limit, folder=tmp_path / "held"))
    added = [batch([1, 2], "a"), batch([3], "b"), batch([4, 5, 6], "c")]
    for added_batch in added:
        held.add(added_batch)
    held.seal()
    assert (held.rows, held.spilled) == (6, spilled)
    for _ in range(2):
        assert pa.Table.from_batches(held.batches()).to_pylist() == pa.Table.from_batches(added).to_pylist()
    held.close()
    assert not list(tmp_path.glob("held/*"))


def test_closing_before_the_end_removes_the_file_too(tmp_path: Path) -> None:
    held = KeyRows(Holding(memory_limit=0, folder=tmp_path))
    held.add(batch([1], "a"))
    assert list(tmp_path.iterdir())
    held.close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    held = KeyRows(Holding(memory_limit=0, folder=tmp_path / "file" / "held"))
    with pytest.raises(Exhausted, match="spilling rows of one key to disk failed"):
        held.add(batch([1], "a"))
