"""A satisfied LIMIT stops reading, through the whole service: bytes are counted below it, by the system."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import tidegate

from ..executor.plans import filtered, limited, plan, read

ROWS = 2_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers that do not compress, for DuckDB to read itself (Parquet) and as a stream of ours (Arrow)."""
    made = tmp_path_factory.mktemp("early")
    numbers = np.random.default_rng(1).integers(0, 2**62, ROWS)
    table = pa.table({"k": numbers, "v": numbers})
    pq.write_table(table, made / "f.parquet", row_group_size=100_000, use_dictionary=False, compression="none")
    feather.write_feather(table, str(made / "f.arrow"), compression="uncompressed", chunksize=100_000)
    return made


def read_so_far() -> int:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("only Linux counts what a process reads")
    return int(counters.read_text().split("rchar: ")[1].split()[0])


def bytes_read(relation: dict[str, object], rows: int, path: Path) -> int:
    json = plan(relation, "k", "v").json
    assert json is not None
    with tidegate.local(roots=[path.parent]) as client, client.create_task(json) as task:
        before = read_so_far()
        assert task.run_epoch({"t": path}).table().num_rows == rows
        return read_so_far() - before


@pytest.mark.parametrize("file", ["f.parquet", "f.arrow"])
def test_a_limit_leaves_most_of_a_file_unread(file: str, folder: Path) -> None:
    source = read("t", "k", "v")
    everything = bytes_read(source, ROWS, folder / file)
    assert everything >= ROWS * 16
    assert bytes_read(limited(source, 10), 10, folder / file) < everything / 2
    assert bytes_read(limited(filtered(source, 0, 5), 10), 10, folder / file) < everything / 2
