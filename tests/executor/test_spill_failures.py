"""A spill disk that takes no more rows of DuckDB: the task fails with the reason, and without paths of the server."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.operators.duckdb import failures

SORTED = sub.read_named_table("t", {"k": sub.i64}).sort(sub.col("k")).to_plan()
ROWS = pa.table({"k": np.random.default_rng(1).integers(0, 1 << 60, 5_000_000)})


def test_a_sort_that_cannot_spill_fails_with_the_reason_and_the_service_goes_on(tmp_path: Path) -> None:
    with tidegate.local(spill_directory=tmp_path) as client:
        with client.create_task(SORTED, memory_limit=32 << 20) as task:
            task.run_epoch({"t": ROWS.slice(0, 10)})
            for folder in tmp_path.glob("tidegate-*/duckdb/duckdb-*"):
                shutil.rmtree(folder)
                folder.write_text("no folder")
            with pytest.raises(tidegate.TaskFailed) as failed:
                task.run_epoch({"t": ROWS})
        assert failed.value.reason == "SPILL_FAILED"
        assert "spilling to disk failed: File exists" in str(failed.value)
        assert str(tmp_path) not in str(failed.value)
        with client.create_task(SORTED) as task:
            assert task.run_epoch({"t": ROWS.slice(0, 10)}).table().num_rows == 10


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            'IO Error: Could not write file "/spill/duckdb_temp_13_0_storage_DEFAULT-0.tmp": No space left on device',
            "No space left on device",
        ),
        (
            'IO Error: Cannot open file "/spill/duckdb_temp_block-12.block": Too many open files',
            "Too many open files",
        ),
    ],
)
def test_an_error_about_a_file_of_duckdbs_own_is_no_fault_of_the_files_that_it_reads(text: str, cause: str) -> None:
    error = duckdb.IOException(text)
    assert not failures.may_be_a_file(error)
    said = failures.translate(error, "place", 1 << 30)
    assert (said.reason, said.message) == ("SPILL_FAILED", f"place: spilling to disk failed: {cause}")


def test_an_error_about_a_file_that_is_read_is_not_of_spilling() -> None:
    error = duckdb.IOException('IO Error: Cannot open file "/data/x.parquet": No such file or directory')
    assert failures.may_be_a_file(error)
    assert failures.translate(error, "place", 1 << 30).reason == "EXECUTION_FAILED"
