"""A few of the files of `unfolding`: small files whose rows take gigabytes are read within the limit, or refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .resident import MIB
from .unfolding import BOMBS, is_broken, read

LIMIT = 64 * MIB
RUN = ("arrow zstd: texts", "parquet: a text of 8,000 bytes, filtered", "parquet: texts that share their beginnings")


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize("name", RUN)
def test_a_file_that_unfolds_takes_no_more_than_the_limit_and_256_mib(tmp_path: Path, name: str) -> None:
    taken = read(BOMBS[name], tmp_path, LIMIT)
    assert not is_broken(BOMBS[name], taken, LIMIT), f"{taken.peak >> 20} MiB, {taken.rows} rows, {taken.error}"
