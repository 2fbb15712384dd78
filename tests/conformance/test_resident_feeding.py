"""A few of the runs that `make feeding` makes: however rows are fed, a service takes the limit and 256 MiB at most."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from .resident import ELSE, MIB
from .resident_feeding import Run, taken

RUNS = (
    Run(feed="files", layout="csv", reader="slow"),
    Run(feed="streams", layout="arrow", reader="slow", remote=True),
    Run(feed="inline", layout="arrow", limit=64 * MIB),
    Run(feed="inline", layout="arrow", limit=64 * MIB, remote=True),
)


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.feed}-{run.layout}-{run.remote}")
def test_wide_rows_take_no_more_than_the_limit_and_256_mib_however_they_are_fed(tmp_path: Path, run: Run) -> None:
    small = replace(run, files=4, size=50 * MIB, limit=min(run.limit, 128 * MIB))
    answer = taken(small, tmp_path)
    assert not answer.error
    assert answer.rows == 4 * (50 * MIB // 100_016) - 12
    if run.feed == "files":
        assert answer.spilled == 0, "rows wait for their reader"
    assert answer.peak <= small.limit + ELSE, f"{answer.peak >> 20} MiB"
