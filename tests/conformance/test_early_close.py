"""A satisfied LIMIT stops reading, through the whole service: counted below it, by the system and by damaged parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from substrait import algebra_pb2 as algebra

import tidegate
from tidegate.proto.statistics import EpochStatistics
from tidegate.relations import UserOperator

from ..executor import operated_plans as operated
from ..executor.plans import filtered, limited, plan, read
from ..on_channels import on_channels
from .resident_epoch import PassedOn

ROWS = 2_000_000
GROUPS = 100
SOURCE = read("t", "k", "v")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers that do not compress, for DuckDB to read itself (Parquet) and as a stream of ours (Arrow)."""
    data_folder = tmp_path_factory.mktemp("early")
    numbers = np.random.default_rng(1).integers(0, 2**62, ROWS)
    table = pa.table({"k": numbers, "v": numbers})
    pq.write_table(
        table, data_folder / "f.parquet", row_group_size=ROWS // GROUPS, use_dictionary=False, compression="none"
    )
    feather.write_feather(table, str(data_folder / "f.arrow"), compression="uncompressed", chunksize=ROWS // GROUPS)
    return data_folder


def read_so_far() -> int:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("only Linux counts what a process reads")
    return int(counters.read_text().split("rchar: ")[1].split()[0])


def epoch(relation: dict[str, object], rows: int, path: Path) -> tuple[EpochStatistics, int]:
    """What an epoch over the file says it has read, and what the system says that the process has."""
    json = plan(relation, "k", "v").json
    assert json is not None
    with tidegate.local(roots=[path.parent]) as client, client.create_task(json) as task:
        before = read_so_far()
        epoch_ = task.run_epoch({"t": path})
        assert epoch_.table().num_rows == rows
        return epoch_.statistics, read_so_far() - before


@pytest.mark.parametrize("file", ["f.parquet", "f.arrow"])
def test_a_limit_leaves_most_of_a_file_unread(file: str, folder: Path) -> None:
    everything, most = epoch(SOURCE, ROWS, folder / file)
    assert everything.rows_in == ROWS
    assert ROWS * 16 <= everything.bytes_in <= most
    for relation in (limited(SOURCE, 10), limited(filtered(SOURCE, 0, 5), 10)):
        limits, seen = epoch(relation, 10, folder / file)
        assert 10 <= limits.rows_in <= ROWS / 5
        assert limits.bytes_in <= seen < most / 4


def test_a_limit_touches_a_few_of_a_hundred_row_groups(folder: Path) -> None:
    """All but the first eight are damaged: what reads one of them fails."""
    path = folder / "damaged.parquet"
    content = bytearray((folder / "f.parquet").read_bytes())
    footer = pq.read_metadata(folder / "f.parquet")
    assert footer.num_row_groups == GROUPS
    for group in range(8, GROUPS):
        for column in (footer.row_group(group).column(i) for i in range(2)):
            content[column.data_page_offset : column.data_page_offset + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(tidegate.TaskFailed, match=r"damaged\.parquet"):
        epoch(SOURCE, ROWS, path)
    for relation in (limited(SOURCE, 10), limited(filtered(SOURCE, 0, 5), 10)):
        epoch(relation, 10, path)


@pytest.mark.parametrize("channels", [1, 2])
def test_what_a_limit_above_an_operator_has_read_has_its_checksums(channels: int, tmp_path: Path) -> None:
    """The operator is closed before it has read the file to its end, and closes the reading of the file."""
    path = tmp_path / "f.parquet"
    table = pa.table({"k": np.arange(10**9, 10**9 + 200_000)})
    pq.write_table(
        table, path, row_group_size=10_000, use_dictionary=False, compression="none", write_page_checksum=True
    )
    limit = algebra.Rel()
    limit.fetch.input.CopyFrom(
        operated.operated(UserOperator(name="passed on"), operated.read("t", {"k": operated.I64}))
    )
    limit.fetch.count_expr.literal.i64 = 10
    operators = {"passed on": tidegate.user_operator(PassedOn)}

    def answer() -> pa.Table:
        with (
            tidegate.local(roots=[tmp_path], operators=operators) as client,
            client.create_task(operated.plan(limit, ["k"]), **on_channels(channels)) as task,
        ):
            return task.run_epoch({"t": path}).table()

    assert answer()["k"].to_pylist() == [*range(10**9, 10**9 + 10)]
    data = path.read_bytes()
    at = data.index((10**9 + 7).to_bytes(8, "little"))
    path.write_bytes(data[:at] + (5).to_bytes(8, "little") + data[at + 8 :])
    with pytest.raises(tidegate.TaskFailed, match="does not match its checksum"):
        answer()
