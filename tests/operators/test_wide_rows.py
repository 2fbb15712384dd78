"""A scan's wide rows: values that stand in many rows are never written out all at once, and a row has a limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tidegate.operators.core.piece import InlinePiece
from tidegate.operators.core.row_reader import reader_of
from tidegate.operators.core.sizes import BATCH_BYTES, row_bytes
from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

LARGE = "x" * 50_000
ROWS = 10_000


def repeated() -> pa.Array:
    """Half a gigabyte of texts that are written once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(ROWS, dtype=np.int32) % 2), pa.array([LARGE, "a"]))


def run_ends() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS // 2, ROWS], pa.int32()), pa.array([LARGE, "a"]))


def inline(*batches: pa.RecordBatch) -> InlinePiece:
    rows = sum(batch.num_rows for batch in batches)
    origin = "split 1 of source 't'"
    return InlinePiece(schema=batches[0].schema, read=reader_of(batches), origin=origin, rows=(0, rows), row_count=rows)


ENCODED = {"dictionary": repeated, "run ends": run_ends}


@pytest.mark.parametrize("encoding", ENCODED)
def test_values_written_once_count_in_every_row_that_has_them(encoding: str) -> None:
    array = ENCODED[encoding]()
    plain = array.cast(pa.string()) if encoding == "dictionary" else pa.array(array.to_pylist())
    for start, rows in ((0, ROWS), (3, 100), (ROWS // 2 - 1, 5)):
        sizes = row_bytes(pa.record_batch({"t": array.slice(start, rows)}))
        assert sizes.tolist() == row_bytes(pa.record_batch({"t": plain.slice(start, rows)})).tolist()


def test_a_null_of_a_dictionary_counts_nothing() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array([LARGE, None]))
    assert row_bytes(pa.record_batch({"t": array})).tolist() == [len(LARGE), 0, 0]


@pytest.mark.parametrize("way", ["inline", "arrow"])
def test_a_dictionary_that_explodes_is_written_out_in_parts(tmp_path: Path, way: str) -> None:
    batch = pa.record_batch({"t": repeated()})
    scan = Scan("t", [column("t", pa.string())])
    if way == "arrow":
        with pa.ipc.new_file(tmp_path / "t.arrow", batch.schema) as writer:
            writer.write_batch(batch)
        scan.assign("t", pieces_of(tmp_path / "t.arrow", tmp_path))
    else:
        scan.assign("t", [inline(batch)])
    before, rows = pa.total_allocated_bytes(), 0
    for part in scan.run(()):
        assert pa.total_allocated_bytes() - before <= 4 * BATCH_BYTES
        rows += part.num_rows
    assert rows == ROWS


@pytest.mark.parametrize("way", ["inline", "arrow", "parquet"])
def test_a_row_beyond_the_limit_is_an_error_that_names_it(tmp_path: Path, way: str) -> None:
    table = pa.table({"k": [1, 2, 3], "t": ["a", "x" * 1_000_000, "b"]})
    scan = Scan("t", [column("k", pa.int64()), column("t", pa.string())], largest=900_000)
    path = tmp_path / f"t.{way}"
    if way == "inline":
        scan.assign("t", [inline(*table.to_batches())])
    elif way == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        scan.assign("t", pieces_of(path, tmp_path))
    else:
        pq.write_table(table, path)
        scan.assign("t", pieces_of(path, tmp_path))
    with pytest.raises(SplitError, match=r"split 1 of source 't'.*: row 1 .* has 1,000,008 bytes") as refused:
        list(scan.run(()))
    assert refused.value.reason == "ROW_TOO_LARGE"


def test_a_stripe_of_an_orc_file_is_decoded_in_parts(tmp_path: Path) -> None:
    table = pa.table({"k": range(1_000), "t": [f"{row:06}" * 10_000 for row in range(1_000)]})
    orc.write_table(table, tmp_path / "t.orc", compression="uncompressed", stripe_size=24 << 20, batch_size=50)
    assert 1 < orc.ORCFile(tmp_path / "t.orc").nstripes < 10
    scan = Scan("t", [column("t", pa.string()), column("k", pa.int64())])
    scan.assign("t", pieces_of(tmp_path / "t.orc", tmp_path))
    before, keys = pa.total_allocated_bytes(), []
    for part in scan.run(()):
        assert pa.total_allocated_bytes() - before <= 6 * BATCH_BYTES
        keys += part["k"].to_pylist()
        assert part["t"][0].as_py()[:6] == f"{part['k'][0].as_py():06}"
    assert keys == list(range(1_000))


def test_many_rows_beyond_the_limit_are_none() -> None:
    batch = pa.record_batch({"t": ["x" * 1_000] * 10_000})
    scan = Scan("t", [column("t", pa.string())], largest=900_000)
    scan.assign("t", [inline(batch)])
    assert sum(batch.num_rows for batch in scan.run(())) == 10_000


def test_a_file_of_text_with_more_columns_than_there_is_room_for_is_refused(tmp_path: Path) -> None:
    names = ",".join(f"c{number}" for number in range(3_000))
    (tmp_path / "t.csv").write_text(f"{names}\n{',' * 2_999}\n")
    for largest, rows in ((1 << 20, None), (2 << 20, 1)):
        scan = Scan("t", [column("c0", pa.int64())], largest=largest)
        scan.assign("t", pieces_of(tmp_path / "t.csv", tmp_path))
        if rows is None:
            with pytest.raises(SplitError, match=r"names 3,000 columns; .* there may be 2,048") as refused:
                list(scan.run(()))
            assert refused.value.reason == "ROW_TOO_LARGE"
        else:
            assert sum(batch.num_rows for batch in scan.run(())) == rows


@pytest.mark.parametrize(
    ("memory", "first", "later"), [(256 << 20, 2_048, 2_048), (4 << 30, 2_048, 8_192)], ids=["little", "much"]
)
def test_wide_rows_behind_the_first_row_group_come_in_larger_batches_where_there_is_memory(
    tmp_path: Path, memory: int, first: int, later: int
) -> None:
    """Batches of a row group have the same number of rows."""
    file = tmp_path / "wide.parquet"
    rows = pa.table({"x": pa.array([bytes([at % 251]) * 2_000 for at in range(16_384)])})
    pq.write_table(rows, file, row_group_size=8_192, use_dictionary=False, compression="none")
    columns = [column("x", pa.binary())]
    scan = Scan("t", columns, largest=memory)
    scan.assign("t", pieces_of(file, tmp_path, columns))
    sizes = [batch.num_rows for batch in scan.run([])]
    assert sizes == [first] * (8_192 // first) + [later] * (8_192 // later)
