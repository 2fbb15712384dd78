"""ORC files that unfold: rows that take more than the memory for decoding are read fewer at a time, down to one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from tidegate.operators.sources.scan import Scan
from tidegate.proto.errors import SplitError

from .data import column, pieces_of

MIB = 1 << 20
LIMIT = 64 * MIB
MEMORY = 128 * MIB
TEXT = "x" * 50_000
ITEMS = 300_000


def texts(rows: int) -> pa.Table:
    return pa.table({"k": range(rows), "v": pa.repeat(TEXT, rows)})


def lists(rows: int) -> pa.Table:
    """Runs of one number, which ORC writes once."""
    offsets = np.arange(rows + 1, dtype=np.int32) * ITEMS
    return pa.table({"k": range(rows), "v": pa.ListArray.from_arrays(offsets, np.zeros(rows * ITEMS, np.int64))})


UNFOLDS = {
    "text in zlib": (texts, 4_000, "zlib", 50_000),
    "text in zstd": (texts, 4_000, "zstd", 50_000),
    "runs": (lists, 60, "uncompressed", 8 * ITEMS),
}


def scan(root: Path, table: pa.Table, compression: str) -> Iterator[pa.RecordBatch]:
    orc.write_table(table, root / "f.orc", compression=compression)
    reading = Scan("t", [column(field.name, field.type) for field in table.schema], largest=LIMIT)
    reading.assign("t", pieces_of(root / "f.orc", root))
    return reading.run(())


def peak(process: subprocess.Popen[bytes]) -> int:
    """The most that was resident in the process, without the files of libraries."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    sizes = {name: int(size) * 1024 for name, size in re.findall(r"(VmHWM|RssFile):\s+(\d+) kB", status)}
    return sizes["VmHWM"] - sizes["RssFile"]


@pytest.mark.parametrize("name", UNFOLDS)
def test_a_file_that_unfolds_is_decoded_within_the_memory_for_it(
    name: str, root: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    table, rows, compression, width = UNFOLDS[name]
    keys: list[int] = []
    batches = scan(root, table(rows), compression)
    assert (root / "f.orc").stat().st_size * 100 < rows * width
    for batch in batches:
        assert batch.nbytes < 12 * MIB
        keys += batch["k"].to_pylist()
    assert keys == list(range(rows))
    assert len(started) == 2
    assert peak(started[-1]) < MEMORY + 64 * MIB


def test_a_row_that_cannot_be_decoded_is_an_error_that_names_it(root: Path) -> None:
    values = pa.array([b"a"] * 150 + [b"x" * (MEMORY + 1)] + [b"b"] * 49)
    named = r"f\.orc \(.*: a row behind the first \d+, .* takes more than 134,217,728"
    with pytest.raises(SplitError, match=named) as refused:
        list(scan(root, pa.table({"k": range(200), "v": values}), "zlib"))
    assert refused.value.reason == "ROW_TOO_LARGE"


def test_a_footer_that_unfolds_is_an_error_that_says_so(root: Path) -> None:
    """The least and the greatest text of a column stand in the footer."""
    with pytest.raises(SplitError, match=r"f\.orc \(.*: the footer, .* takes more than 268,435,456") as refused:
        scan(root, pa.table({"k": [1], "v": ["x" * (MEMORY + 1)]}), "zlib")
    assert refused.value.reason == "PART_TOO_LARGE"
