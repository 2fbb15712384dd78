"""The TPC-H tables and the oracles over them, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import tpch


@pytest.fixture(scope="session")
def tpch_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tpch.generate(tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="session")
def oracles(tpch_files: dict[str, Path]) -> tpch.Oracles:
    return tpch.Oracles(tpch_files)
