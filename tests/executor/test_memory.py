"""Resident memory with wide rows, by the system's count: a task's `memory_limit` and 256 MiB for all else.

A child process each, which prints the most that was resident. Small, for every run; `benchmarks/` is for larger ones.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..searching import in_search

ROW = 100_000
ROWS = 2_000
LIMIT = 128 << 20
ELSE = 256 << 20

CHILD = """
    import sys
    import tidegate
    import substrait.dataframe as sub

    files, shape = sys.argv[1:]
    rows = sub.read_named_table("rows", {"id": sub.i64, "image": sub.binary})
    plan = {
        "read": lambda: rows,
        "filter": lambda: rows.filter(sub.col("id") >= 0),
        "count": lambda: rows.group_by("id").agg(sub.f.count(sub.col("image")).alias("n")),
    }[shape]().to_plan()
    seen = spilled = 0
    with tidegate.local() as client:
        with client.create_task(plan, memory_limit=128 << 20, output_bytes=8 << 20) as task:
            task.add_split("rows", files)
            task.request_barrier()
            task.no_more_splits()
            for batch in task.batches():
                seen += batch.num_rows
                spilled = max(spilled, task.statistics().spilled_bytes)
    [peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(seen, spilled, int(peak) * 1024)
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB of rows of 100 KB: two Parquet files, and an Arrow file in record batches of 5 MB."""
    folder = tmp_path_factory.mktemp("wide")
    noise = np.random.default_rng(1).bytes(ROW * 2)
    schema = pa.schema([("id", pa.int64()), ("image", pa.binary())])

    def batch(first: int) -> pa.RecordBatch:
        images = [noise[at : at + ROW] for at in range(first % 1_000, first % 1_000 + 50)]
        return pa.record_batch([pa.array(range(first, first + 50)), pa.array(images, pa.binary())], schema=schema)

    batches = [batch(first) for first in range(0, ROWS, 50)]
    for number, half in enumerate((batches[: len(batches) // 2], batches[len(batches) // 2 :])):
        # A page is read as a whole, and pyarrow looks at its size only after so many rows.
        pq.write_table(
            pa.Table.from_batches(half), folder / f"{number}.parquet", compression="none", write_batch_size=8
        )
    with pa.ipc.new_file(folder / "all.arrow", schema) as written:
        for wide_batch in batches:
            written.write_batch(wide_batch)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize(
    ("files", "shape"),
    [("*.arrow", "filter"), ("*.parquet", "count"), *in_search(("*.parquet", "read"), ("*.parquet", "filter"))],
)
def test_wide_rows_take_no_more_than_the_limit_and_256_mib(wide: Path, files: str, shape: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(wide / files), shape]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    seen, spilled, peak = map(int, done.stdout.split())
    assert seen == ROWS
    assert spilled == 0
    assert peak <= LIMIT + ELSE, f"{peak >> 20} MiB"
