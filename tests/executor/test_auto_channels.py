"""`channels="auto"`: the channels of an epoch by its bytes, with the rows of as many channels that are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.planner.cut import chosen_channels as choice

from ..on_channels import on_channels

NUMBERS = np.arange(600_000)
ROWS = pa.table({"g": NUMBERS * 7_919 % 100_003, "x": NUMBERS / 7})
SUMS = (
    sub.read_named_table("facts", {"g": sub.i64, "x": sub.fp64})
    .group_by("g")
    .agg(sub.f.sum(sub.col("x")).alias("sum"))
    .to_plan()
)


def test_an_epoch_has_channels_by_its_bytes_and_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "LEAST_BYTES", 3_000_000)
    pq.write_table(ROWS, tmp_path / "rows.parquet", row_group_size=50_000)
    small, large = ROWS.slice(0, 100), str(tmp_path / "rows.parquet")
    auto = {"channels": "auto", "auto_cores": 3, "parallel_threshold_seconds": 0.0}
    with tidegate.local() as client, client.create_task(SUMS, **auto) as task:
        assert (task.options.channels, task.options.auto_cores) == (3, 3)

        def chosen(rows: str | pa.Table) -> int:
            """The one number of channels with which a task gives the same rows in the same order."""
            result = task.run_epoch({"facts": rows}).table()
            [channels] = [
                channels
                for channels in (1, 2, 3)
                if client.query(SUMS, {"facts": rows}, determinism="strict", **on_channels(channels)) == result
            ]
            return channels

        assert [chosen(large), chosen(ROWS), chosen(ROWS.slice(0, 300_000))] == [3, 3, 2]
        assert task.run_epoch({"facts": small}).table().num_rows == 100


def test_a_number_that_is_no_number_of_channels_is_refused() -> None:
    with tidegate.local() as client:
        for wrong in (0, "all", True, 1.5):
            with pytest.raises(tidegate.InvalidRequest, match='channels must be a whole number from 1, or "auto"'):
                client.create_task(SUMS, channels=wrong)  # type: ignore[arg-type]
